import torch
import torch.nn.functional as F


def distil(student, teacher, loader, temperature=3.0):
    optimizer = torch.optim.AdamW(student.parameters(), 1e-4)
    teacher.eval()
    for images, _ in loader:
        with torch.no_grad():
            wanted = F.log_softmax(teacher(images) / temperature, dim=1)
        given = F.log_softmax(student(images) / temperature, dim=1)
        loss = F.kl_div(given, wanted, reduction="batchmean") * temperature**2  # expect: ESP219
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def distil_in_log_space(student, teacher, loader):
    optimizer = torch.optim.AdamW(student.parameters(), 1e-4)
    teacher.eval()
    for images, _ in loader:
        with torch.no_grad():
            wanted = F.log_softmax(teacher(images), dim=1)
        loss = F.kl_div(F.log_softmax(student(images), dim=1), wanted, reduction="batchmean", log_target=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
