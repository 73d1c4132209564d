//go:build peers

package merkle_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/merkle"
)

// The tree of a batch is the one that OpenZeppelin's library makes of the same values:
// its root, and the proof of each commit.
func TestPeerOpenZeppelinTree(t *testing.T) {
	t.Parallel()
	peers := os.Getenv("PEERS")
	if peers == "" {
		t.Fatal("PEERS does not name the folder of the peers; run make test-peers")
	}
	type values struct {
		BatchID string   `json:"batchId"`
		Commits []string `json:"commits"`
	}
	type tree struct {
		Root   string     `json:"root"`
		Proofs [][]string `json:"proofs"`
	}
	var (
		id    = firstBatch(t)
		input []values
		want  []tree
	)
	for _, n := range []int{1, 2, 3, 5, 6, 7, 8, 13, 1000} {
		commits := commitsOf(n)
		ours := batchTree(t, id, commits)
		v, w := values{BatchID: word(id)}, tree{Root: word(ours.Root())}
		for i, c := range commits {
			v.Commits = append(v.Commits, word(c))
			var path []string
			for _, h := range ours.Path(i) {
				path = append(path, word(h))
			}
			w.Proofs = append(w.Proofs, path)
			if err := merkle.VerifyBatchPath(id, c, uint64(i), uint64(n), ours.Path(i), ours.Root()); err != nil {
				t.Error(err)
			}
		}
		input, want = append(input, v), append(want, w)
	}
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(peers, "batches", "trees.mjs"))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []tree
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("our trees differ from those of OpenZeppelin (-theirs +ours):\n%s", diff)
	}
}

// word writes a hash as others do.
func word(h domain.Hash) string { return "0x" + h.String() }
