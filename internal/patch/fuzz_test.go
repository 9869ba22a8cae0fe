package patch

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// A pod of any version, or root on a node, writes the report. Decode must read it or fail, and the result can be encoded.
func FuzzDecode(f *testing.F) {
	encoded, err := done().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded)
	f.Add([]byte(`{"method":"Check","failure":{"reason":"Locked","message":"é"}}`))
	f.Add([]byte(`{"repositories":[{"id":"x","date":"0001-01-01T00:00:00Z"}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Decode(text)
		if err != nil {
			return
		}
		r.Complete()
		_ = r.Answers(good()) // Any answer is fine; it must not panic.
		first, err := r.Encode()
		if err != nil {
			return // A report of a stranger may be too long.
		}
		if len(first) > MaxReport {
			t.Fatalf("%d bytes", len(first))
		}
		again, err := Decode(first)
		if err != nil {
			t.Fatalf("%v of %s", err, first)
		}
		again.Omitted = r.Omitted
		second, err := again.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if len(first) == len(second) && !bytes.Equal(first, second) {
			t.Errorf("%s\nbecomes\n%s", first, second)
		}
	})
}

// A pattern matches names from their first character only, whatever the pattern is.
func FuzzHold(f *testing.F) {
	for _, pattern := range append(DefaultHold(), "^a|b", "^(?i)KUBE", "^.*", "^$", "^a)|(b", "^\\Qa") {
		f.Add(pattern, "kubelet")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		h, err := NewHold([]string{pattern})
		if err != nil {
			return
		}
		if !strings.HasPrefix(pattern, "^") {
			t.Fatalf("the pattern %q is accepted", pattern)
		}
		if !h.Matches(name) {
			return
		}
		if at := regexp.MustCompile(pattern[1:]).FindStringIndex(name); at == nil || at[0] != 0 {
			t.Errorf("%q holds %q, and matches at %v", pattern, name, at)
		}
	})
}

// CompareVersions is an order.
func FuzzCompareVersions(f *testing.F) {
	f.Add("1.0", "1.0~rc1", "1.0-1")
	f.Add("6.1.0-9-amd64", "6.1.0-40-amd64", "6.1.0-40-cloud-amd64")
	f.Add("", "0", "~")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		ab, ba := CompareVersions(a, b), CompareVersions(b, a)
		if ab != -ba {
			t.Errorf("%q and %q: %d and %d", a, b, ab, ba)
		}
		if CompareVersions(a, a) != 0 {
			t.Errorf("%q is not equal to itself", a)
		}
		if bc, ac := CompareVersions(b, c), CompareVersions(a, c); ab <= 0 && bc <= 0 && ac > 0 {
			t.Errorf("%q, %q and %q have no order", a, b, c)
		}
	})
}

// Any text of os-release has an answer, and only known systems are patched.
func FuzzSystemOf(f *testing.F) {
	f.Add("ID=debian\nVERSION_ID=\"12\"\n", false)
	f.Add("ID_LIKE=\"a b", true)
	f.Add("ID=fedora\nVARIANT_ID=coreos\n", true)
	f.Add("ID=\nVERSION_ID=\n", false)
	f.Add("=\n==\n", false)
	f.Add("ID='opensuse-leap'\nID_LIKE='suse opensuse'\n", false)
	f.Add("ID=ubuntu\nID_LIKE=debian\n", false)
	f.Fuzz(func(t *testing.T, text string, image bool) {
		manager, failure := ManagerOf(SystemOf(text), image)
		if (manager == "") != (failure != nil) {
			t.Errorf("manager %q, failure %v", manager, failure)
		}
		if image && failure == nil {
			t.Error("an image is patched")
		}
	})
}
