// Builds the trees of batches with @openzeppelin/merkle-tree. Reads a list of
// {batchId, commits} on standard input and prints, for each, the root and the proof of
// every commit.
import { readFileSync } from 'node:fs';
import { StandardMerkleTree } from '@openzeppelin/merkle-tree';
import { id, ZeroHash } from 'ethers';

const types = ['bytes32', 'bytes32', 'uint256', 'uint256', 'bytes32'];
const commitTag = id('MysteryShopper.CommitLeaf.v1');
const padTag = id('MysteryShopper.PadLeaf.v1');

const trees = JSON.parse(readFileSync(0, 'utf8')).map(({ batchId, commits }) => {
  const count = commits.length;
  const leaves = commits.map((commit, i) => [commitTag, batchId, i, count, commit]);
  let size = 2;
  while (size < count) size *= 2;
  for (let i = count; i < size; i++) leaves.push([padTag, batchId, i, count, ZeroHash]);
  const tree = StandardMerkleTree.of(leaves, types, { sortLeaves: false });
  tree.validate();
  return { root: tree.root, proofs: commits.map((_, i) => tree.getProof(i)) };
});
console.log(JSON.stringify(trees));
