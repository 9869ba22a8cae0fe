// Package manifest holds the manifests of Kamino: definitions of its kinds, namespaces, identities, permissions, and the
// controller's Deployment. The package renders manifests and applies nothing.
//
// The permissions are minimal. If RBAC cannot narrow a permission, a comment in the manifest says why.
package manifest

import (
	"cmp"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/crds"
	"github.com/kamino-dev/kamino/api/v1alpha1"
)

//go:embed files/*.yaml
var files embed.FS

// Options select the rendered manifests.
type Options struct {
	// Namespace of the Leases, the saved recipes and the controller. Default: v1alpha1.DefaultNamespace.
	Namespace string
	// GeneralizeNamespace of the generalize pods, which are privileged. Default: v1alpha1.DefaultGeneralizeNamespace. Write
	// refuses Namespace here: a pod can mount each Secret of its namespace.
	GeneralizeNamespace string
	// Force adds the permission to delete any pod, for a drain with force after its timeout.
	Force bool
	// DeleteTrialNodes adds the permission to delete the Nodes of trials and workshops whose instance is gone.
	DeleteTrialNodes bool
	// KarpenterRules are added for nodes of Karpenter; nil without such nodes.
	KarpenterRules []rbacv1.PolicyRule
	// Controller adds the Deployment.
	Controller bool
	// Image of the pods on nodes, and ControllerImage of the controller. Both are required with Controller.
	Image, ControllerImage string
	// CloudConfigSecret is a Secret in the namespace; the key ConfigFile holds the cloud configuration. The Deployment also
	// starts without the Secret, for clusters with workload identity.
	CloudConfigSecret string
	// ConfigFile is the name of the cloud's configuration file. Required with CloudConfigSecret.
	ConfigFile string
	// IAM writes only Grant: the permissions in the cloud with these powers.
	IAM    bool
	Grant  func(powers ...string) ([]byte, error)
	Powers []string
	// Management writes only the account for Cluster API's management cluster, in this namespace of the Cluster, and a Role
	// with ManagementRules.
	Management      string
	ManagementRules []rbacv1.PolicyRule
	// ManagementApart are rules of the same account in other namespaces, by namespace.
	ManagementApart map[string][]rbacv1.PolicyRule
	// NoAdmissionPolicy omits the ValidatingAdmissionPolicies, which API servers before 1.30 do not know.
	NoAdmissionPolicy bool
}

// CRDs writes the definitions of Kamino's kinds as a YAML stream.
func CRDs(w io.Writer) error {
	return eachCRD(func(text []byte) error { return document(w, string(text)) })
}

// Definitions returns the definitions of Kamino's kinds as objects.
func Definitions() ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	err := eachCRD(func(text []byte) error {
		d := &unstructured.Unstructured{}
		all = append(all, d)
		return yaml.Unmarshal(text, d)
	})
	return all, err
}

func eachCRD(do func(text []byte) error) error {
	entries, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		return err
	}
	for _, name := range entries {
		text, err := crds.Files.ReadFile(name)
		if err != nil {
			return err
		}
		if err := do(text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Write writes all manifests as a YAML stream, in an order that can be applied. With IAM, Write writes one JSON document.
func Write(w io.Writer, o Options) error {
	if o.IAM {
		if o.Grant == nil {
			return fmt.Errorf("this cloud has no IAM document: omit --iam")
		}
		text, err := o.Grant(o.Powers...)
		if err == nil {
			_, err = fmt.Fprintf(w, "%s\n", text)
		}
		return err
	}
	if o.Management != "" {
		return management(w, o)
	}
	o, err := o.checked()
	if err != nil {
		return err
	}
	if o.Controller && (o.Image == "" || o.ControllerImage == "") {
		return fmt.Errorf("the controller's Deployment needs two images, and this build of Kamino has no published images: push the images, " +
			"and pass --controller-image, and --image for the pods on nodes")
	}
	if o.CloudConfigSecret != "" && o.ConfigFile == "" {
		return fmt.Errorf("the key of Secret %s is not named", o.CloudConfigSecret)
	}
	if err := CRDs(w); err != nil {
		return err
	}
	return renderAll(w, o)
}

// Installation returns all manifests as objects, without the definitions and the Deployment, in an order that can be
// applied.
func Installation(o Options) ([]*unstructured.Unstructured, error) {
	o.Controller = false
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	if err := renderAll(&text, o); err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, one := range strings.Split("\n"+text.String(), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(one), object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
	return all, nil
}

func renderAll(w io.Writer, o Options) error {
	for _, name := range filesOf(o) {
		if err := render(w, name, o); err != nil {
			return err
		}
	}
	if len(o.KarpenterRules) == 0 {
		return nil
	}
	if err := renderRules(w, "karpenter.yaml", o, o.KarpenterRules); err != nil || o.NoAdmissionPolicy {
		return err
	}
	return render(w, karpenterAdmission, o)
}

const karpenterAdmission = "karpenter-admission.yaml"

// KarpenterAdmission returns the admission policies for Karpenter's objects, with $(namespace) and $(account) for the engine's account.
func KarpenterAdmission() ([]byte, error) { return files.ReadFile("files/" + karpenterAdmission) }

// renderRules renders a file with rules, and replaces more names.
func renderRules(w io.Writer, name string, o Options, rules []rbacv1.PolicyRule, more ...string) error {
	text, err := yaml.Marshal(map[string]any{"rules": rules})
	if err != nil {
		return err
	}
	return render(w, name, o, append(more, "$(rules)", strings.TrimSpace(string(text)))...)
}

// checked returns the options with the default namespaces, or an error.
func (o Options) checked() (Options, error) {
	o.Namespace = cmp.Or(o.Namespace, v1alpha1.DefaultNamespace)
	o.GeneralizeNamespace = cmp.Or(o.GeneralizeNamespace, v1alpha1.DefaultGeneralizeNamespace)
	for _, namespace := range []string{o.Namespace, o.GeneralizeNamespace} {
		if err := checkNamespace(namespace); err != nil {
			return o, err
		}
	}
	if o.Namespace == o.GeneralizeNamespace {
		return o, fmt.Errorf("the engine and the generalize pods share namespace %s: a pod could mount the engine's Secrets. "+
			"Pass two namespaces with --namespace and --generalize-namespace", o.Namespace)
	}
	return o, nil
}

func checkNamespace(namespace string) error {
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return fmt.Errorf("namespace %q: %s", namespace, strings.Join(problems, "; "))
	}
	return nil
}

// management writes the manifests for the management cluster of Cluster API.
func management(w io.Writer, o Options) error {
	if err := checkNamespace(o.Management); err != nil {
		return err
	}
	write := func(file, elsewhere string, rules []rbacv1.PolicyRule) error {
		return renderRules(w, file, o, rules, "$(management)", o.Management, "$(elsewhere)", elsewhere)
	}
	if err := write("management.yaml", "", o.ManagementRules); err != nil {
		return err
	}
	for _, namespace := range slices.Sorted(maps.Keys(o.ManagementApart)) {
		if err := write("management-apart.yaml", namespace, o.ManagementApart[namespace]); err != nil {
			return err
		}
	}
	return nil
}

// filesOf are the files for the options, in an order that can be applied.
func filesOf(o Options) []string {
	names := []string{"namespace.yaml", "generalize.yaml", "engine.yaml", "people.yaml"}
	if !o.NoAdmissionPolicy {
		names = append(names, "admission.yaml", "node-admission.yaml")
	}
	if o.Force {
		names = append(names, "force.yaml")
	}
	if o.DeleteTrialNodes {
		names = append(names, "trial-nodes.yaml")
	}
	if o.DeleteTrialNodes && !o.NoAdmissionPolicy {
		names = append(names, "trial-nodes-admission.yaml")
	}
	if o.Controller {
		names = append(names, "controller.yaml")
	}
	return names
}

// onlyWithSecret marks a line for installations with a Secret with the cloud's configuration.
const onlyWithSecret = "  #secret\n"

// render replaces the names in a file. render avoids text/template: that package calls methods by name, so the linker keeps
// every method of every package, a third of the binary.
func render(w io.Writer, name string, o Options, more ...string) error {
	text, err := files.ReadFile("files/" + name)
	if err != nil {
		return err
	}
	names := strings.NewReplacer(append(more,
		"$(apart)", apart(o.Namespace),
		"$(namespace)", o.Namespace,
		"$(account)", "kamino-engine",
		"$(podspace)", o.GeneralizeNamespace,
		"$(generalize)", v1alpha1.GeneralizeServiceAccount,
		"$(lease)", v1alpha1.LeaseName,
		"$(image)", o.Image,
		"$(controllerImage)", o.ControllerImage,
		"$(secret)", o.CloudConfigSecret,
		"$(config)", o.ConfigFile,
	)...)
	var kept strings.Builder
	for line := range strings.Lines(string(text)) {
		bare, marked := strings.CutSuffix(line, onlyWithSecret)
		switch {
		case !marked:
			kept.WriteString(line)
		case o.CloudConfigSecret != "":
			kept.WriteString(bare + "\n")
		}
	}
	return document(w, names.Replace(kept.String()))
}

// apart is the suffix of cluster-wide names, so that the names of two namespaces differ. The default namespace has no
// suffix, so that an upgrade finds its objects.
func apart(namespace string) string {
	if namespace == v1alpha1.DefaultNamespace {
		return ""
	}
	return "-" + namespace
}

// document writes one file, so that another file may follow.
func document(w io.Writer, text string) error {
	text = strings.TrimPrefix(strings.TrimSpace(text), "---")
	_, err := fmt.Fprintf(w, "---\n%s\n", strings.TrimLeft(text, "\n"))
	return err
}
