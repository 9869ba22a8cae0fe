// Package manifest holds what a cluster needs for Kamino: definitions of its kinds, namespace, identities
// and permissions, and the controller's Deployment. It renders them; it applies nothing.
//
// The permissions are the least that the work needs. Where a permission could be narrowed no further in
// RBAC, a comment in the manifest says why.
package manifest

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kamino-dev/kamino/api/crds"
	"github.com/kamino-dev/kamino/api/v1alpha1"
)

//go:embed files/*.yaml
var files embed.FS

// Options choose what is rendered.
type Options struct {
	// Namespace for the Lease, the generalize pods and saved recipes. v1alpha1.DefaultNamespace if empty.
	Namespace string
	// Controller adds the Deployment.
	Controller bool
	// Image of the controller, and through it of the generalize pods. Required with Controller.
	Image string
	// CloudConfigSecret is a Secret in the namespace whose key azure.json configures the cloud. The
	// Deployment starts without it too, for clusters whose pods get a workload identity.
	CloudConfigSecret string
}

// values are what the templates see.
type values struct {
	Options
	Lease                    string
	GeneralizeServiceAccount string
}

// CRDs writes the definitions of Kamino's kinds as a YAML stream.
func CRDs(w io.Writer) error {
	entries, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		return err
	}
	for _, name := range entries {
		text, err := crds.Files.ReadFile(name)
		if err != nil {
			return err
		}
		if err := document(w, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// Write writes everything as a YAML stream, in an order in which it can be applied.
func Write(w io.Writer, o Options) error {
	if o.Namespace == "" {
		o.Namespace = v1alpha1.DefaultNamespace
	}
	if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
		return fmt.Errorf("namespace %q: %s", o.Namespace, strings.Join(problems, "; "))
	}
	if o.Controller && o.Image == "" {
		return fmt.Errorf("the controller's Deployment needs an image")
	}
	if err := CRDs(w); err != nil {
		return err
	}
	names := []string{"namespace.yaml", "generalize.yaml", "engine.yaml"}
	if o.Controller {
		names = append(names, "controller.yaml")
	}
	for _, name := range names {
		if err := render(w, name, o); err != nil {
			return err
		}
	}
	return nil
}

func render(w io.Writer, name string, o Options) error {
	t, err := template.New(name).Option("missingkey=error").ParseFS(files, "files/"+name)
	if err != nil {
		return err
	}
	var text strings.Builder
	v := values{Options: o, Lease: v1alpha1.LeaseName, GeneralizeServiceAccount: v1alpha1.GeneralizeServiceAccount}
	if err := t.Execute(&text, v); err != nil {
		return fmt.Errorf("manifest %s: %w", name, err)
	}
	return document(w, text.String())
}

// document writes one file so that it can follow another one.
func document(w io.Writer, text string) error {
	text = strings.TrimPrefix(strings.TrimSpace(text), "---")
	_, err := fmt.Fprintf(w, "---\n%s\n", strings.TrimLeft(text, "\n"))
	return err
}
