package contents

import (
	"cmp"
	"fmt"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Version is an image version with its known contents.
type Version struct {
	Version string `json:"version"`
	// Prototype, Donor and Lineage are the origin: the capture, the captured node, and the version of that node.
	Prototype string `json:"prototype,omitempty"`
	Donor     string `json:"donor,omitempty"`
	Lineage   string `json:"lineage,omitempty"`
	// OS, Kernel, Kubelet and Runtime are the donor's, as reported by its kubelet; empty if unknown.
	OS      string `json:"os,omitempty"`
	Kernel  string `json:"kernel,omitempty"`
	Kubelet string `json:"kubelet,omitempty"`
	Runtime string `json:"runtime,omitempty"`
	// Digest of the stored list, from the tags of the image version; empty if the version has no list.
	Digest string `json:"contentsDigest,omitempty"`
	// Contents are nil if unknown. Missing is the reason.
	Contents *Contents `json:"-"`
	Missing  string    `json:"missing,omitempty"`
}

// Read adds the contents from the Prototype of the version, which may be nil. The stored list must match the digest in
// the tags of the image version, because other clients may write the tags.
func (v Version) Read(p *v1alpha1.Prototype) Version {
	text := ""
	if p != nil {
		text = p.Status.Contents
	}
	switch {
	case v.Digest == "" && text == "":
		v.Missing = "the capture of the version kept no list"
	case p == nil:
		v.Missing = fmt.Sprintf("Prototype %s, which keeps the list, does not exist", cmp.Or(v.Prototype, "of the version"))
	case text == "":
		v.Missing = fmt.Sprintf("status.contents of Prototype %s is missing", p.Name)
	case v1alpha1.ContentsDigest(text) != v.Digest:
		v.Missing = fmt.Sprintf("status.contents of Prototype %s has digest %s, and the image version has %s: a client changed one of the two",
			p.Name, v1alpha1.ContentsDigest(text), cmp.Or(v.Digest, "none"))
	default:
		var err error
		if v.Contents, err = Decode(text); err != nil {
			v.Missing = fmt.Sprintf("status.contents of Prototype %s: %v", p.Name, err)
		}
	}
	return v
}

// OfImage returns the version of an image in its cloud, without the contents.
func OfImage(image cloud.Image) Version {
	tags := image.Tags
	return Version{
		Version: image.Version, Prototype: tags[cloud.TagPrototype], Donor: tags[cloud.TagBuiltFrom], Lineage: tags[cloud.TagLineage],
		OS: tags[cloud.TagOS], Kernel: tags[cloud.TagKernel], Kubelet: tags[cloud.TagKubelet], Runtime: tags[cloud.TagRuntime], Digest: tags[cloud.TagContents],
	}
}

// OfPrototype returns the version of a Prototype without the cloud: the facts and the digest are those of the status.
func OfPrototype(p *v1alpha1.Prototype) Version {
	v := Version{Version: p.Spec.Version, Prototype: p.Name, Donor: p.Spec.Donor.NodeName}
	if record, err := v1alpha1.RecordOf(p); err == nil {
		v.Lineage = record.BuiltFrom
	}
	if i := p.Status.Image; i != nil {
		v.OS, v.Kernel, v.Kubelet, v.Runtime, v.Digest = i.OS, i.Kernel, i.Kubelet, i.Runtime, i.ContentsDigest
	}
	return v.Read(p)
}
