package sbom

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	packageurl "github.com/package-url/packageurl-go"

	"github.com/kamino-dev/kamino/internal/contents"
)

// subject is a version with packages of both kinds and hostile names.
func subject() Subject {
	return Subject{
		Pool: "pool1", BuiltAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), ID: "ami-1", Tool: "v1.0.0",
		Version: contents.Version{
			Version: "2026.03.01", Donor: "node-1", Kernel: "6.1.0-28-amd64", Kubelet: "v1.33.1", Digest: "sha256:1",
			Contents: &contents.Contents{
				OS: contents.OS{ID: "debian", VersionID: "12", Name: "Debian GNU/Linux 12 (bookworm)"},
				Packages: []contents.Package{
					{Kind: contents.Deb, Name: "libssl3", Version: "3.0.15-1~deb12u1", Arch: "amd64", Source: "openssl", SourceVersion: "3.0.15-1"},
					{Kind: contents.Deb, Name: "libstdc++6", Version: "12.2.0-14", Arch: "amd64", Source: "gcc-12"},
					{Kind: contents.RPM, Name: "openssl-libs", Version: "1:3.2.2-6.el9", Arch: "x86_64", Source: "openssl",
						SourceRPM: "openssl-3.2.2-6.el9.src.rpm"},
					{Kind: contents.Deb, Name: "evil?arch=other&x=\"\x1b[2J\u202e\n/../#", Version: "1@2?3"},
				},
				Images: []contents.Image{{Name: "registry.example.org:5000/team/App:1.2", Digest: "sha256:2222"}, {Digest: "sha256:3333"}, {Name: "busybox"}},
				Notes:  []string{"packages of rpm: the database is damaged"},
			},
		},
	}
}

func TestPackageURLs(t *testing.T) {
	c := subject().Contents
	for i, want := range []string{
		"pkg:deb/debian/libssl3@3.0.15-1~deb12u1?arch=amd64&distro=debian-12&upstream=openssl%403.0.15-1",
		"pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=amd64&distro=debian-12&upstream=gcc-12",
		"pkg:rpm/debian/openssl-libs@3.2.2-6.el9?arch=x86_64&distro=debian-12&epoch=1&upstream=openssl-3.2.2-6.el9.src.rpm",
	} {
		if got := packageURL(c.Packages[i], c.OS); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	// A hostile name stays one name: no qualifier comes from it.
	p, err := packageurl.FromString(packageURL(c.Packages[3], c.OS))
	if err != nil || p.Qualifiers.Map()["arch"] != "" || p.Qualifiers.Map()["distro"] != "debian-12" || p.Version != "1@2?3" {
		t.Errorf("%+v, error %v", p, err)
	}
	for i, want := range []string{"pkg:oci/app@sha256%3A2222?repository_url=registry.example.org:5000%2Fteam%2FApp&tag=1.2", "", ""} {
		if got := imageURL(c.Images[i]); unescaped(t, got) != unescaped(t, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// unescaped is a package URL in its normal form: which characters are escaped is a choice of the library.
func unescaped(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	p, err := packageurl.FromString(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p.ToString()
}

// TestCycloneDX reads the document with the library of the format.
func TestCycloneDX(t *testing.T) {
	text, err := Write(subject())
	if err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.SpecVersion != cdx.SpecVersion1_6 || bom.Metadata.Component.Name != "pool1-2026.03.01" || bom.Metadata.Timestamp != "2026-03-01T12:00:00Z" {
		t.Errorf("the document is %+v", bom.Metadata)
	}
	kinds := map[cdx.ComponentType]int{}
	refs := map[string]bool{}
	for _, c := range *bom.Components {
		kinds[c.Type]++
		if refs[c.BOMRef] {
			t.Errorf("two components have the reference %s", c.BOMRef)
		}
		refs[c.BOMRef] = true
	}
	if kinds[cdx.ComponentTypeOS] != 1 || kinds[cdx.ComponentTypeLibrary] != 4 || kinds[cdx.ComponentTypeContainer] != 3 {
		t.Errorf("components %v", kinds)
	}
	properties := map[string]string{}
	for _, p := range *bom.Metadata.Component.Properties {
		properties[p.Name] = p.Value
	}
	if properties["kamino:kernel"] != "6.1.0-28-amd64" || properties["kamino:incomplete"] != "packages of rpm: the database is damaged" ||
		properties["kamino:lineage"] != "" {
		t.Errorf("properties %v", properties)
	}
}

// TestEqualVersionsGiveEqualDocuments, and other contents another identifier.
func TestEqualVersionsGiveEqualDocuments(t *testing.T) {
	first, err := Write(subject())
	if err != nil {
		t.Fatal(err)
	}
	if second, _ := Write(subject()); !bytes.Equal(first, second) {
		t.Error("two documents of a version differ")
	}
	other := subject()
	other.Digest, other.BuiltAt = "sha256:2", time.Time{}
	third, err := Write(other)
	if err != nil {
		t.Fatal(err)
	}
	if id := identifier(t, first); id == identifier(t, third) {
		t.Errorf("other contents have the identifier %s too", id)
	}
}

// identifier is the identifier of a document.
func identifier(t *testing.T, text []byte) string {
	t.Helper()
	var doc struct{ SerialNumber string }
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.SerialNumber
}

func TestWriteRefuses(t *testing.T) {
	s := subject()
	s.Contents, s.Missing = nil, "no list"
	if _, err := Write(s); err == nil || !strings.Contains(err.Error(), "the contents of version 2026.03.01 are unknown: no list") {
		t.Errorf("error %v", err)
	}
}
