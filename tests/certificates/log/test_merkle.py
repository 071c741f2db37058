from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_samples import leaf

from esper_agents.certificates.log import merkle
from esper_agents.certificates.log.block_tree import BLOCK, BlockTree
from esper_agents.certificates.log.merkle import (
    EMPTY_ROOT,
    appended,
    check_consistency,
    check_inclusion,
    consistency,
    inclusion,
    peaks,
    root,
)

# The inputs of Certificate Transparency's own tests, and the roots over the first n of them.
CT_LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
CT_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def naive(leaves):
    """Return the root as RFC 6962, 2.1, defines it."""
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256(b"").digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return sha256(b"\x01" + naive(leaves[:split]) + naive(leaves[split:])).digest()


def grown(leaves):
    nodes = {}

    def read(places):
        return [nodes[place] for place in places]

    for idx, each in enumerate(leaves):
        filled = appended(idx, each, read)
        assert not nodes.keys() & filled.keys(), "what is full never changes"
        nodes.update(filled)
    return nodes, read


sizes = st.integers(0, 300)


def test_the_roots_are_those_of_certificate_transparency():
    leaves = [merkle.leaf_hash(bytes.fromhex(ct_leaf)) for ct_leaf in CT_LEAVES]
    _, read = grown(leaves)
    assert [root(size, read).hex() for size in range(1, 9)] == CT_ROOTS
    assert root(0, read) == EMPTY_ROOT == sha256(b"").digest()


@pytest.mark.slow
@given(sizes)
def test_every_complete_subtree_is_stored_once_and_the_root_is_that_of_the_definition(size):
    leaves = [leaf(each) for each in range(size)]
    nodes, read = grown(leaves)
    assert len(nodes) == 2 * size - size.bit_count()
    assert all(found == naive(leaves[idx << level : (idx + 1) << level]) for (level, idx), found in nodes.items())
    assert [root(each, read) for each in range(size + 1)] == [naive(leaves[:each]) for each in range(size + 1)]


@given(st.data(), sizes.filter(bool))
def test_an_inclusion_proof_shows_its_leaf_at_its_place_and_nothing_else(data, size):
    leaves = [leaf(each) for each in range(size)]
    _, read = grown(leaves)
    idx = data.draw(st.integers(0, size - 1))
    proof, tree = inclusion(idx, size, read), naive(leaves)
    assert check_inclusion(leaves[idx], idx, size, proof, tree)
    assert not check_inclusion(leaf(-1), idx, size, proof, tree)
    assert not check_inclusion(leaves[idx], idx, size, [*proof, leaf(-1)], tree)
    assert not check_inclusion(leaves[idx], idx, size, proof, leaf(-1))
    other = data.draw(st.integers(-1, size + 1).filter(lambda each: each != idx))
    assert not check_inclusion(leaves[idx], other, size, proof, tree)
    if proof:
        assert not check_inclusion(leaves[idx], idx, size, proof[1:], tree)
        assert not check_inclusion(leaves[idx], idx, size, proof[:-1], tree)
        changed = data.draw(st.integers(0, len(proof) - 1))
        assert not check_inclusion(leaves[idx], idx, size, [*proof[:changed], leaf(-1), *proof[changed + 1 :]], tree)


def test_in_a_small_tree_an_inclusion_proof_fits_one_place():
    for size in range(1, 13):
        leaves = [leaf(each) for each in range(size)]
        _, read = grown(leaves)
        for idx in range(size):
            proof = inclusion(idx, size, read)
            fits = [each for each in range(size) if check_inclusion(leaves[idx], each, size, proof, naive(leaves))]
            assert fits == [idx]


@given(st.data(), sizes)
def test_a_consistency_proof_shows_that_one_tree_goes_on_from_another_and_nothing_else(data, new):
    leaves = [leaf(each) for each in range(new)]
    _, read = grown(leaves)
    old = data.draw(st.integers(0, new))
    proof, before, after = consistency(old, new, read), naive(leaves[:old]), naive(leaves)
    assert check_consistency(old, before, new, after, proof)
    assert not check_consistency(old, leaf(-1), new, after, proof)
    assert not check_consistency(old, before, new, after, [*proof, leaf(-1)])
    if old:
        assert not check_consistency(old, before, new, leaf(-1), proof)
        forked = naive([leaf(-1), *leaves[1:old]])
        assert not check_consistency(old, forked, new, after, proof)
    for changed in range(len(proof)):
        assert not check_consistency(old, before, new, after, proof[:changed] + proof[changed + 1 :])
        assert not check_consistency(old, before, new, after, [*proof[:changed], leaf(-1), *proof[changed + 1 :]])


@pytest.mark.parametrize(("old", "new"), [(3, 2), (-1, 2), (1, 0)])
def test_no_proof_shows_that_a_tree_goes_back(old, new):
    assert not check_consistency(old, EMPTY_ROOT, new, EMPTY_ROOT, [])


def test_the_subtrees_of_a_tree_of_a_million_are_few():
    assert len(peaks(1_000_000)) == 7
    assert peaks(2**20) == [(20, 0)]


def test_a_tree_in_blocks_has_the_nodes_and_roots_of_one_that_grew_leaf_by_leaf():
    leaves = [leaf(each) for each in range(2 * BLOCK + 5)]
    nodes, read = grown(leaves)
    tree, found = BlockTree(), {(0, idx): each for idx, each in enumerate(leaves)}
    for first in range(0, len(leaves), BLOCK):
        for run in tree.add(leaves[first : first + BLOCK]):
            found |= {(run.level, idx): each for idx, each in enumerate(run.hashes, run.first)}
        for size in (first + 1, tree.size - 1, tree.size):
            assert size == first or root(size, tree.read) == root(size, read)
    assert found == nodes
