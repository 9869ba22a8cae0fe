package contents

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// prototypeWith is a Prototype with a stored list.
func prototypeWith(text string) *v1alpha1.Prototype {
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool1-2026.03.01", UID: "u"}}
	p.Spec.Version, p.Spec.Donor.NodeName = "2026.03.01", "node-1"
	p.Status.Contents = text
	return p
}

func TestRead(t *testing.T) {
	text, other := encoded(t, *listOf(deb("a", "1"))), encoded(t, *listOf(deb("a", "2")))
	for name, test := range map[string]struct {
		digest  string
		p       *v1alpha1.Prototype
		missing string
	}{
		"the list of the version":              {v1alpha1.ContentsDigest(text), prototypeWith(text), ""},
		"a version of an early Kamino":         {"", prototypeWith(""), "the capture of the version kept no list"},
		"a version from elsewhere":             {"", nil, "the capture of the version kept no list"},
		"a list without a digest in the cloud": {"", prototypeWith(text), "the image version has none: a client changed one of the two"},
		"a changed list":                       {v1alpha1.ContentsDigest(text), prototypeWith(other), "has digest " + v1alpha1.ContentsDigest(other)},
		"a deleted list":                       {v1alpha1.ContentsDigest(text), prototypeWith(""), "status.contents of Prototype pool1-2026.03.01 is missing"},
		"a deleted Prototype":                  {v1alpha1.ContentsDigest(text), nil, "Prototype pool1-2026.03.01, which keeps the list, does not exist"},
		"an unreadable list":                   {v1alpha1.ContentsDigest("x"), prototypeWith("x"), "the list is not readable"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Version{Version: "2026.03.01", Prototype: "pool1-2026.03.01", Digest: test.digest}.Read(test.p)
			if (got.Contents != nil) != (test.missing == "") || !strings.Contains(got.Missing, test.missing) {
				t.Errorf("contents %v, missing %q, want %q", got.Contents, got.Missing, test.missing)
			}
		})
	}
}

func TestOfImage(t *testing.T) {
	got := OfImage(cloud.Image{Version: "2026.03.01", Tags: map[string]string{
		cloud.TagPrototype: "pool1-2026.03.01", cloud.TagBuiltFrom: "node-1", cloud.TagLineage: "2026.02.01", cloud.TagOS: "Debian 12", cloud.TagKernel: "6.1",
		cloud.TagKubelet: "v1.33.1", cloud.TagRuntime: "containerd://1.7.1", cloud.TagContents: "sha256:1",
	}})
	want := Version{
		Version: "2026.03.01", Prototype: "pool1-2026.03.01", Donor: "node-1", Lineage: "2026.02.01", OS: "Debian 12", Kernel: "6.1", Kubelet: "v1.33.1",
		Runtime: "containerd://1.7.1", Digest: "sha256:1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOfPrototype(t *testing.T) {
	text := encoded(t, *listOf(deb("a", "1")))
	p := prototypeWith(text)
	if got := OfPrototype(p); got.Contents != nil || !strings.Contains(got.Missing, "the image version has none") {
		t.Errorf("before the publication: %+v", got)
	}
	p.Status.Record = &v1alpha1.Record{UID: "u", BuiltFrom: "2026.02.01"}
	p.Status.Image = &v1alpha1.ImageStatus{OS: "Debian 12", Kernel: "6.1", Kubelet: "v1.33.1", Runtime: "containerd://1.7.1",
		ContentsDigest: v1alpha1.ContentsDigest(text)}
	want := Version{
		Version: "2026.03.01", Prototype: "pool1-2026.03.01", Donor: "node-1", Lineage: "2026.02.01", OS: "Debian 12", Kernel: "6.1", Kubelet: "v1.33.1",
		Runtime: "containerd://1.7.1", Digest: v1alpha1.ContentsDigest(text), Contents: listOf(deb("a", "1")),
	}
	got := OfPrototype(p)
	got.Contents.FixesPerSource = 0
	if diff := cmp.Diff(&want, &got); diff != "" {
		t.Error(diff)
	}
	p.Status.Record.UID = "another"
	if got := OfPrototype(p); got.Lineage != "" || got.Contents == nil {
		t.Errorf("with the record of another Prototype: %+v", got)
	}
}

// TestAnOldAnnotationHasNoContents: the creator of a Prototype chooses its annotations, and a version of Kamino before the list
// was in the status wrote the list there.
func TestAnOldAnnotationHasNoContents(t *testing.T) {
	text := encoded(t, *listOf(deb("a", "1")))
	p := prototypeWith("")
	p.Annotations = map[string]string{"kamino.dev/contents": text}
	p.Status.Image = &v1alpha1.ImageStatus{ContentsDigest: v1alpha1.ContentsDigest(text)}
	if got := OfPrototype(p); got.Contents != nil || !strings.Contains(got.Missing, "status.contents of Prototype pool1-2026.03.01 is missing") {
		t.Errorf("the annotation is read: %+v", got)
	}
}
