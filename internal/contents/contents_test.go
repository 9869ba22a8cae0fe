package contents

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// deb is a package of dpkg.
func deb(name, version string) Package {
	return Package{Kind: Deb, Name: name, Version: version, Arch: "amd64"}
}

// listOf is a list with some packages.
func listOf(packages ...Package) *Contents {
	c := &Contents{OS: OS{ID: "debian", VersionID: "12"}, Packages: packages}
	c.Sort()
	return c
}

func encoded(t *testing.T, c Contents) string {
	t.Helper()
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestSort(t *testing.T) {
	c := Contents{
		Packages: []Package{deb("b", "1"), deb("a", "2"), deb("b", "1"), deb("a", "1"), {Kind: RPM, Name: "a", Version: "1", Arch: "amd64"},
			{Kind: Deb, Name: "a", Version: "1"}},
		Images:  []Image{{"b", "sha256:1"}, {"a", "sha256:2"}, {"a", "sha256:1"}, {"b", "sha256:1"}},
		Unknown: []Directory{{"/opt", 1}, {"/etc", 2}},
		Notes:   []string{"b", "a", "b"},
	}
	c.Sort()
	want := Contents{
		Packages: []Package{{Kind: Deb, Name: "a", Version: "1"}, deb("a", "1"), deb("a", "2"),
			{Kind: RPM, Name: "a", Version: "1", Arch: "amd64"}, deb("b", "1")},
		Images:  []Image{{"a", "sha256:1"}, {"a", "sha256:2"}, {"b", "sha256:1"}},
		Unknown: []Directory{{"/etc", 2}, {"/opt", 1}},
		Notes:   []string{"a", "b"},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

func TestNamesOfSourcesAndImages(t *testing.T) {
	if got := (Package{Name: "libssl3", Source: "openssl"}).SourceName(); got != "openssl" {
		t.Errorf("source %q", got)
	}
	if got := deb("curl", "1").SourceName(); got != "curl" {
		t.Errorf("source %q", got)
	}
	for want, image := range map[string]Image{"a": {"a", ""}, "sha256:1": {"", "sha256:1"}, "a@sha256:1": {"a", "sha256:1"}} {
		if image.String() != want {
			t.Errorf("image %q, want %q", image.String(), want)
		}
	}
}

// TestEncode: the stored text is the same for equal contents, and gives the same contents back.
func TestEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 8, 32)
		c := Contents{OS: OS{ID: text.Draw(t, "os")}, Packages: []Package{}, FixesPerSource: fixLimits[0], Fixes: map[string][]string{}}
		for range rapid.IntRange(0, 5).Draw(t, "packages") {
			c.Packages = append(c.Packages, Package{Kind: Deb, Name: text.Draw(t, "name"), Version: text.Draw(t, "version"), Source: text.Draw(t, "source")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "images") {
			c.Images = append(c.Images, Image{text.Draw(t, "image"), text.Draw(t, "digest")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "fixes") {
			c.Fixes[text.Draw(t, "fixed")] = []string{"CVE-2026-1"}
		}
		if len(c.Fixes) == 0 {
			c.Fixes = nil
		}
		c.Sort()
		first, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if second, _ := c.Encode(); second != first {
			t.Error("two texts of equal contents differ")
		}
		got, err := Decode(first)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&c, got); diff != "" {
			t.Error(diff)
		}
	})
}

// noise is a text that does not compress.
func noise(r *rand.Rand, length int) string {
	b := make([]byte, length)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[r.Intn(36)]
	}
	return string(b)
}

// TestEncodeHasALimit: old CVEs leave a list that is too large, then directories, and never a package.
func TestEncodeHasALimit(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	c := *listOf(deb("a", "1"))
	c.Fixes = map[string][]string{}
	for i := range 200 {
		source := fmt.Sprintf("source%d", i)
		for range 200 {
			c.Fixes[source] = append(c.Fixes[source], fmt.Sprintf("CVE-%04d-%07d", r.Intn(10000), r.Intn(10000000)))
		}
	}
	got, err := Decode(encoded(t, c))
	if err != nil {
		t.Fatal(err)
	}
	if got.FixesPerSource >= 200 || got.FixesPerSource == 0 || len(got.Fixes["source7"]) != got.FixesPerSource ||
		got.Fixes["source7"][0] != c.Fixes["source7"][0] {
		t.Errorf("%d CVEs of each source, %d of source7", got.FixesPerSource, len(got.Fixes["source7"]))
	}
	if len(c.Fixes["source7"]) != 200 {
		t.Error("the encoder changed the list itself")
	}
	for i := range 3000 {
		c.Unknown = append(c.Unknown, Directory{noise(r, 60), i})
	}
	if got, err = Decode(encoded(t, c)); err != nil {
		t.Fatal(err)
	}
	if got.Fixes != nil || got.Unknown != nil || len(got.Packages) != 1 || len(got.Notes) != 2 {
		t.Errorf("%d sources, %d directories, %d packages, notes %q", len(got.Fixes), len(got.Unknown), len(got.Packages), got.Notes)
	}
	for range 3000 {
		c.Packages = append(c.Packages, deb(noise(r, 60), "1"))
	}
	if text, err := c.Encode(); err == nil || text != "" || !strings.Contains(err.Error(), "the list of 3001 packages and 0 images has ") {
		t.Errorf("a list of %d bytes, error %v", len(text), err)
	}
}

// TestARealListFits: two thousand packages with usual names and versions leave room.
func TestARealListFits(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	c := *listOf()
	for i := range 2000 {
		c.Packages = append(c.Packages, Package{
			Kind: Deb, Arch: "amd64", Name: fmt.Sprintf("lib%s-%d", noise(r, 6), i),
			Version: fmt.Sprintf("%d.%d.%d-%d+deb12u%d", r.Intn(9), r.Intn(40), r.Intn(20), r.Intn(5), r.Intn(9)), Source: noise(r, 6),
		})
	}
	if text := encoded(t, c); len(text) > MaxEncoded*2/3 {
		t.Errorf("%d bytes of %d", len(text), MaxEncoded)
	}
}

func TestTooManyNotes(t *testing.T) {
	c := *listOf()
	for i := range 100 {
		c.Notes = append(c.Notes, fmt.Sprint(i))
	}
	got, err := Decode(encoded(t, c))
	if err != nil || len(got.Notes) != MaxNotes {
		t.Errorf("%d notes, error %v", len(got.Notes), err)
	}
}

// packed is a text as another client could write it.
func packed(t *testing.T, plain []byte) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func TestDecodeRefuses(t *testing.T) {
	whole := encoded(t, *listOf(deb("a", "1")))
	for name, test := range map[string]struct{ text, want string }{
		"nothing":                {"", "is not readable"},
		"no base64":              {"{}", "is not readable"},
		"no gzip":                {base64.StdEncoding.EncodeToString([]byte("{}")), "is not readable"},
		"no JSON":                {packed(t, []byte("packages")), "is not readable"},
		"other JSON":             {packed(t, []byte(`{"packages": 7}`)), "is not readable"},
		"cut short":              {whole[:len(whole)/2/4*4], "is not readable"},
		"a large list of spaces": {packed(t, bytes.Repeat([]byte(" "), maxDecoded+1)), "more than 8388608 bytes"},
	} {
		if got, err := Decode(test.text); err == nil || got != nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, error %v, want %q", name, got, err, test.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("H4sIAAAAAAAA/6pWKkhMzk5MTy1WsoqOrQUAAAD//w==")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Decode(text)
		if err != nil {
			return
		}
		v := Version{Contents: c}
		if d := Compare("pool", v, v); len(d.Packages)+len(d.Fixed)+len(d.ImagesAdded)+len(d.ImagesGone)+len(d.Unknown) > 0 {
			t.Errorf("a list differs from itself: %+v", d)
		}
	})
}
