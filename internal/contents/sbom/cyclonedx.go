package sbom

import (
	"fmt"
	"io"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/kamino-dev/kamino/internal/contents"
)

func writeCycloneDX(w io.Writer, s Subject) error {
	subject := cdx.Component{BOMRef: "image", Type: cdx.ComponentTypeOS, Name: s.name(), Version: s.Version.Version}
	properties := []cdx.Property{}
	for _, fact := range s.facts() {
		properties = append(properties, cdx.Property{Name: "kamino:" + fact[0], Value: fact[1]})
	}
	subject.Properties = &properties
	bom := cdx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + uuid(s.sum())
	bom.Metadata = &cdx.Metadata{
		Component: &subject,
		Tools:     &cdx.ToolsChoice{Components: &[]cdx.Component{{Type: cdx.ComponentTypeApplication, Name: "kamino", Version: s.Tool}}},
	}
	if !s.BuiltAt.IsZero() {
		bom.Metadata.Timestamp = s.BuiltAt.UTC().Format(time.RFC3339)
	}
	c := s.Contents
	components := []cdx.Component{}
	if c.OS.ID != "" {
		components = append(components, cdx.Component{BOMRef: "os", Type: cdx.ComponentTypeOS, Name: c.OS.ID, Version: c.OS.VersionID, Description: c.OS.Name})
	}
	for i, p := range c.Packages {
		components = append(components, cdx.Component{
			BOMRef: fmt.Sprintf("package-%d", i), Type: cdx.ComponentTypeLibrary, Name: p.Name, Version: p.Version, PackageURL: packageURL(p, c.OS),
		})
	}
	for i, image := range c.Images {
		components = append(components, cdx.Component{
			BOMRef: fmt.Sprintf("container-%d", i), Type: cdx.ComponentTypeContainer, Name: name(image), Version: image.Digest, PackageURL: imageURL(image),
		})
	}
	bom.Components = &components
	// Version 1.6 is the newest version that the scanners read.
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).EncodeVersion(bom, cdx.SpecVersion1_6)
}

// name is the name of an image; its digest for an image without a name.
func name(i contents.Image) string {
	if i.Name == "" {
		return i.Digest
	}
	return i.Name
}
