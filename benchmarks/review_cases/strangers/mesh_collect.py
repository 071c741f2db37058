"""Samples points on the surfaces of meshes for an implicit shape network."""
import torch


def face_areas(vertices, faces):
    a, b, c = vertices[faces].unbind(1)
    return 0.5 * torch.linalg.cross(b - a, c - a).norm(dim=1)


def sample(vertices, faces, count):
    which = torch.multinomial(face_areas(vertices, faces), count, replacement=True)
    a, b, c = vertices[faces[which]].unbind(1)
    u, v = torch.rand(2, count, 1)
    flip = (u + v) > 1
    u, v = torch.where(flip, 1 - u, u), torch.where(flip, 1 - v, v)
    return a + u * (b - a) + v * (c - a)


def collect(meshes, per_mesh=5000, noise=0.02):
    points = torch.empty(0, 3)
    offsets = torch.empty(0, 3)
    shape = torch.empty(0, dtype=torch.long)
    for number, (vertices, faces) in enumerate(meshes):
        surface = sample(vertices, faces, per_mesh)
        jitter = noise * torch.randn_like(surface)
        points = torch.cat([points, surface + jitter])  # expect: ESP401
        offsets = torch.cat([offsets, jitter])  # allow: ESP401
        shape = torch.cat([shape, torch.full((per_mesh,), number)])  # allow: ESP401
    return points, offsets.norm(dim=1), shape
