// Checks proofs with the packages that Go's own checksum database rests on. Arguments: the key, then for each record
// its envelope and its proof; the last argument is a consistency proof: old size, old root and hashes, in base64 lines.
package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func read(name string) []byte {
	data, err := os.ReadFile(name)
	must(err)
	return data
}

func hash(text string) tlog.Hash {
	found, err := tlog.ParseHash(text)
	must(err)
	return found
}

func checkpoint(signed string, verifier note.Verifier) (int64, tlog.Hash) {
	opened, err := note.Open([]byte(signed), note.VerifierList(verifier))
	must(err)
	lines := strings.Split(opened.Text, "\n")
	if lines[0] != verifier.Name() {
		must(fmt.Errorf("another origin"))
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	must(err)
	return size, hash(lines[2])
}

func main() {
	verifier, err := note.NewVerifier(os.Args[1])
	must(err)
	var size int64
	var root tlog.Hash
	pairs := os.Args[2 : len(os.Args)-1]
	for each := 0; each < len(pairs); each += 2 {
		head, signed, _ := strings.Cut(string(read(pairs[each+1])), "\n\n")
		lines := strings.Split(head, "\n")
		idx, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
		must(err)
		var proof tlog.RecordProof
		for _, line := range lines[2:] {
			proof = append(proof, hash(line))
		}
		size, root = checkpoint(signed, verifier)
		must(tlog.CheckRecord(proof, size, root, idx, tlog.RecordHash(read(pairs[each]))))
	}
	lines := strings.Split(strings.TrimSpace(string(read(os.Args[len(os.Args)-1]))), "\n")
	old, err := strconv.ParseInt(lines[0], 10, 64)
	must(err)
	var proof tlog.TreeProof
	for _, line := range lines[2:] {
		_, err := base64.StdEncoding.DecodeString(line)
		must(err)
		proof = append(proof, hash(line))
	}
	must(tlog.CheckTree(proof, size, root, old, hash(lines[1])))
	fmt.Println("checked")
}
