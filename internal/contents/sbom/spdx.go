package sbom

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// noAssertion is the value of mandatory fields without a statement. Source: SPDX 2.3.
const noAssertion = "NOASSERTION"

func writeSPDX(w io.Writer, s Subject) error {
	created := s.BuiltAt
	if created.IsZero() {
		created = time.Unix(0, 0) // the field is mandatory
	}
	var facts []string
	for _, fact := range s.facts() {
		facts = append(facts, fact[0]+": "+fact[1])
	}
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: s.name(),
		DocumentNamespace: "https://kamino.dev/sbom/" + url.PathEscape(s.name()) + "-" + hex.EncodeToString(s.sum()[:16]),
		DocumentComment:   strings.Join(facts, "\n"),
		CreationInfo: &spdx.CreationInfo{
			Created: created.UTC().Format(time.RFC3339), Creators: []common.Creator{{CreatorType: "Tool", Creator: "kamino-" + s.Tool}},
		},
	}
	add := func(id, name, version, purpose, purl string) {
		p := &spdx.Package{
			PackageName: name, PackageSPDXIdentifier: common.ElementID(id), PackageVersion: version, PrimaryPackagePurpose: purpose,
			PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
		}
		if purl != "" {
			p.PackageExternalReferences = []*spdx.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: purl}}
		}
		doc.Packages = append(doc.Packages, p)
		if id != subjectID {
			doc.Relationships = append(doc.Relationships, relation(subjectID, id, common.TypeRelationshipContains))
		}
	}
	add(subjectID, s.name(), s.Version.Version, "OPERATING-SYSTEM", "")
	doc.Relationships = append(doc.Relationships, relation("DOCUMENT", subjectID, common.TypeRelationshipDescribe))
	c := s.Contents
	if c.OS.ID != "" {
		add("OS", c.OS.ID, c.OS.VersionID, "OPERATING-SYSTEM", "")
	}
	for i, p := range c.Packages {
		add(fmt.Sprintf("Package-%d", i), p.Name, p.Version, "", packageURL(p, c.OS))
	}
	for i, image := range c.Images {
		add(fmt.Sprintf("Container-%d", i), name(image), image.Digest, "CONTAINER", imageURL(image))
	}
	return json.NewEncoder(w).Encode(doc)
}

// subjectID is the identifier of the image version in the document.
const subjectID = "Image"

func relation(from, to, kind string) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.MakeDocElementID("", from), RefB: common.MakeDocElementID("", to), Relationship: kind}
}
