package scan

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSummary compares two machines: configuration is equal, an identity differs, and some files are on one machine alone.
func TestSummary(t *testing.T) {
	own, other := map[string]string{}, map[string]string{}
	var want []string
	for i := range MaxSummarized / 2 {
		equal, differs, only := fmt.Sprintf("/opt/equal/%d", i), fmt.Sprintf("/opt/differs/%d", i), fmt.Sprintf("/opt/only/%d", i)
		own[equal], other[equal] = "a", "a"
		own[only] = "a"
		if i%10 == 0 {
			own[differs], other[differs] = "a", "b"
			want = append(want, differs)
		}
	}
	s, err := Summarize(other, testKey(1))
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.MarshalText()
	if err != nil || len(text) > 4096 {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	read, err := ReadSummary(string(text), testKey(1))
	if err != nil {
		t.Fatal(err)
	}
	got := read.Differing(own)
	slices.Sort(want)
	missed, wrong := 0, 0
	for _, name := range want {
		if !slices.Contains(got, name) {
			missed++
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			wrong++
		}
	}
	// The filters are deterministic, so these figures do not change.
	if missed > len(want)/50 || wrong > len(own)/50 {
		t.Errorf("of %d different files %d are missed; %d of %d others are named", len(want), missed, wrong, len(own)-len(want))
	}
	t.Logf("%d of %d missed, %d of %d named by mistake", missed, len(want), wrong, len(own)-len(want))
}

// TestEqualFiles: a summary of few files knows an equal file, and a summary of many files does not say so.
func TestEqualFiles(t *testing.T) {
	for count, known := range map[int]bool{200: true, 1000: false, 2 * MaxSummarized: false} {
		files := map[string]string{}
		for i := range count {
			files[fmt.Sprintf("/opt/%d/file", i)] = "a"
		}
		s, err := Summarize(files, testKey(1))
		if err != nil {
			t.Fatal(err)
		}
		if s.Equal("/opt/7/file", "a") != known || s.Equal("/opt/7/file", "b") || s.Equal("/opt/other", "a") {
			t.Errorf("%d files: equal %t, want %t", count, s.Equal("/opt/7/file", "a"), known)
		}
	}
}

// TestSummaryOfManyFiles: directories stand for files that are too many, as deep as they fit.
func TestSummaryOfManyFiles(t *testing.T) {
	machine := func(changed ...string) map[string]string {
		files := map[string]string{"/opt/agent/id": "a", "/srv/x": "a"}
		for i := range 7000 {
			files[fmt.Sprintf("/usr/local/tool/lib/part%d/file%d", i%300, i)] = "a"
		}
		for _, name := range changed {
			files[name] = "b"
		}
		return files
	}
	for name, c := range map[string]struct{ changed, want []string }{
		"equal":                   {},
		"a file in a directory":   {[]string{"/usr/local/tool/lib/part7/file307"}, []string{"/usr/local/tool/lib/part7/"}},
		"a file alone":            {[]string{"/opt/agent/id", "/srv/x"}, []string{"/opt/agent/id", "/srv/x"}},
		"a file on one machine":   {[]string{"/usr/local/tool/lib/part9/more"}, []string{"/usr/local/tool/lib/part9/"}},
		"a file of a new package": {[]string{"/usr/local/other/x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Summarize(machine(), testKey(1))
			if err != nil {
				t.Fatal(err)
			}
			text, err := s.MarshalText()
			if err != nil || len(text) > 4096 {
				t.Fatalf("%d bytes, %v", len(text), err)
			}
			read, err := ReadSummary(string(text), testKey(1))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, read.Differing(machine(c.changed...))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummaryLimits(t *testing.T) {
	many := map[string]string{}
	for i := range MaxSummarized + 1 {
		many[fmt.Sprint(i)] = ""
	}
	if _, err := Summarize(many, testKey(1)); err == nil {
		t.Error("too many files fit into a summary")
	}
	for _, text := range []string{"", "AAAA", "?"} {
		if _, err := ReadSummary(text, testKey(1)); err == nil {
			t.Errorf("%q is a summary", text)
		}
	}
	if _, err := Summarize(nil, nil); err == nil {
		t.Error("a summary without a key")
	}
}

// TestSummaryNeedsItsKey: without the key, a summary does not show whether a guessed content is on the machine.
func TestSummaryNeedsItsKey(t *testing.T) {
	const file, content = "/opt/app/pin", "7"
	files := map[string]string{file: content}
	var texts []string
	for n := range byte(2) {
		s, err := Summarize(files, testKey(n))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := s.MarshalText()
		texts = append(texts, string(text))
	}
	if _, err := ReadSummary(texts[0], testKey(1)); err == nil {
		t.Error("another key reads the summary")
	}
	first, err := ReadSummary(texts[0], testKey(0))
	if err != nil {
		t.Fatal(err)
	}
	guess := &Summary{key: testKey(1), paths: first.paths, contents: first.contents}
	if !first.has(&first.contents, file+"\x00"+content) || guess.has(&guess.contents, file+"\x00"+content) {
		t.Error("a guess is confirmed without the key")
	}
}

func testKey(n byte) []byte { return bytes.Repeat([]byte{n}, SummaryKeyBytes) }

// TestHashes: the hashes are those of a whole search.
func TestHashes(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"var/lib/dpkg/info/p.md5sums": "d41d8cd98f00b204e9800998ecf8427e  usr/bin/p\n", "usr/bin/p": "changed",
		"opt/a": "1", "opt/b/c": "2", "opt/empty": "", "base/x": "3", "var/lib/docker/image/x": "4",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base := func(p string) bool { return strings.HasPrefix(p, "/base/") || strings.HasPrefix(p, "/var/lib/dpkg/") }
	report, err := Tree(t.Context(), dir, Options{Base: base, Hashes: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Hashes(t.Context(), dir, base, nil)
	if err != nil || len(got) != 2 {
		t.Errorf("%d hashes, %v", len(got), err)
	}
	if diff := cmp.Diff(report.Hashes, got); diff != "" {
		t.Errorf("(-search +hashes):\n%s", diff)
	}
}
