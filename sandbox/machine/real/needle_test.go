//go:build machines

package real

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fragment is the length of a text that identifies a needle: less than half of a needle's form, and far longer than
// a match by chance.
const fragment = 12

// needles are random texts on a donor, by place, with an index of their fragments.
type needles struct {
	values map[string]string
	// begins marks the first two bytes of fragments. pieces has all fragments.
	begins [1 << 16]bool
	pieces map[[fragment]byte]string
}

func newNeedles() *needles {
	return &needles{values: map[string]string{}, pieces: map[[fragment]byte]string{}}
}

// in returns the needle of a place, and creates a missing needle.
func (n *needles) in(place string) string {
	if n.values[place] == "" {
		n.add(place, strings.ToLower(rand.Text()))
	}
	return n.values[place]
}

// add registers a foreign secret as a needle.
func (n *needles) add(place, value string) {
	n.values[place] = value
	for _, form := range forms(value) {
		for i := 0; i+fragment <= len(form); i++ {
			n.begins[binary.LittleEndian.Uint16([]byte(form[i:]))] = true
			n.pieces[[fragment]byte([]byte(form[i:i+fragment]))] = place
		}
	}
}

// forms returns the forms of a text on a disk: plain, hex, and base64 with each alignment.
func forms(value string) []string {
	all := []string{value, hex.EncodeToString([]byte(value))}
	for before := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), value...))
		// The first and last characters depend on adjacent bytes.
		all = append(all, encoded[before+1:len(encoded)-1])
	}
	return all
}

// search records the needles in some content.
func (n *needles) search(content []byte, found map[string]bool) {
	for i := 0; i+fragment <= len(content); i++ {
		if n.begins[binary.LittleEndian.Uint16(content[i:])] {
			if place, is := n.pieces[[fragment]byte(content[i:i+fragment])]; is {
				found[place] = true
			}
		}
	}
}

// inImage returns the needles on a raw disk, in used and free blocks.
func (n *needles) inImage(t *testing.T, image string) []string {
	t.Helper()
	found := map[string]bool{}
	eachPiece(t, image, func(piece []byte) { n.search(piece, found) })
	return slices.Sorted(maps.Keys(found))
}

// inTree returns the needles per file. A needle in an image but in no file is in a free block or in the file
// system's own data.
func (n *needles) inTree(t *testing.T, root string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		here := map[string]bool{}
		n.search(content, here)
		for place := range here {
			found = append(found, fmt.Sprintf("%s: %s", place, strings.TrimPrefix(path, root)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

// TestNeedles tests the search.
func TestNeedles(t *testing.T) {
	n := newNeedles()
	value := n.in("there")
	middle := value[4 : 4+fragment]
	for what, content := range map[string]string{
		"as it is": "x" + value + "x", "a fragment": middle, "hex": hex.EncodeToString([]byte(middle)),
		"base64": base64.StdEncoding.EncodeToString([]byte(value)), "base64 after one": base64.StdEncoding.EncodeToString([]byte("x" + value)),
		"base64 after two": base64.URLEncoding.EncodeToString([]byte("xy" + value + "z")),
	} {
		found := map[string]bool{}
		if n.search([]byte(content), found); !found["there"] {
			t.Errorf("%s is not found", what)
		}
	}
	found := map[string]bool{}
	if n.search([]byte(strings.ToLower(rand.Text())+value[:fragment-1]), found); len(found) > 0 {
		t.Error("a needle is found that is not there")
	}
}
