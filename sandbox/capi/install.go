package capi

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

//go:embed definitions
var definitions embed.FS

// bootstrapGroup is the group of the kinds that the kubeadm bootstrap provider converts. The core provider converts
// all other kinds.
const bootstrapGroup = "bootstrap.cluster.x-k8s.io"

// newScheme holds the installed kinds.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme))
}

// install applies the definitions and the webhooks. The webhooks call the processes at their addresses.
func install(ctx context.Context, o Options, addresses map[string]string, ca []byte) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	c, err := client.New(o.Config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	crds, err := o.definitions()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		o.convertAt(crd, addresses, ca)
		if crd.Labels == nil {
			crd.Labels = map[string]string{}
		}
		crd.Labels["clusterctl.cluster.x-k8s.io"] = "" // clusterctl labels and moves objects with this label
	}
	if err := define(ctx, c, crds); err != nil {
		return err
	}
	if err := keepTemplates(ctx, c, o.AWS == nil); err != nil {
		return err
	}
	for file, address := range addresses {
		if err := installWebhooks(ctx, c, file, address, ca); err != nil {
			return err
		}
	}
	return nil
}

// convertAt sets the webhook that converts the versions of a definition.
func (o Options) convertAt(crd *apiextensionsv1.CustomResourceDefinition, addresses map[string]string, ca []byte) {
	if len(crd.Spec.Versions) < 2 {
		return
	}
	file := filepath.Join(o.Bin, "webhooks", "core.yaml")
	switch crd.Spec.Group {
	case bootstrapGroup:
		file = filepath.Join(o.Bin, "webhooks", "kubeadm.yaml")
		crd.Labels = map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}
	case infrastructureAWS.Group: // only the real provider has several versions
		file = filepath.Join(o.AWS.Bin, "webhooks", "aws.yaml")
	}
	if addresses[file] == "" {
		return
	}
	url := "https://" + addresses[file] + "/convert"
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: ca},
	}}
}

// contractAWS is the label that config/crd/kustomization.yaml of the provider for AWS adds: the versions for a contract of
// Cluster API.
var contractAWS = map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1_v1beta2"}

// definitions returns the definitions of Cluster API, of the imitated infrastructure, and of the real provider.
func (o Options) definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var all []*apiextensionsv1.CustomResourceDefinition
	if o.AWS != nil {
		var err error
		if all, err = definitionsIn(o.AWS.Bin, "clusterapi-aws"); err != nil {
			return nil, err
		}
		for _, crd := range all {
			crd.Labels = maps.Clone(contractAWS)
		}
	}
	ofProvider := len(all)
	theirs, err := definitionsIn(o.Bin, "clusterapi")
	if err != nil {
		return nil, err
	}
	all = append(all, theirs...)
	ours, err := definitions.ReadDir("definitions")
	if err != nil {
		return nil, err
	}
	for _, file := range ours {
		content, err := definitions.ReadFile("definitions/" + file.Name())
		if err != nil {
			return nil, err
		}
		if all, err = readDefinitions(all, content, file.Name()); err != nil {
			return nil, err
		}
	}
	// A definition of the real provider replaces the imitated definition.
	return slices.Concat(all[:ofProvider], slices.DeleteFunc(all[ofProvider:], func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return slices.ContainsFunc(all[:ofProvider], func(of *apiextensionsv1.CustomResourceDefinition) bool { return of.Name == crd.Name })
	})), nil
}

// definitionsIn returns the definitions that a target of the Makefile has put into a directory.
func definitionsIn(bin, target string) (all []*apiextensionsv1.CustomResourceDefinition, err error) {
	files, err := filepath.Glob(filepath.Join(bin, "definitions", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no definitions in %s: `make %s` builds them: %w", bin, target, errors.Join(err, os.ErrNotExist))
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if all, err = readDefinitions(all, content, file); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readDefinitions appends the definitions in a file.
func readDefinitions(all []*apiextensionsv1.CustomResourceDefinition, content []byte, name string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	err := documents(content, func(document []byte) error {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(document, crd); err != nil {
			return fmt.Errorf("definition %s: %w", name, err)
		}
		all = append(all, crd)
		return nil
	})
	return all, err
}

// InstallDefinitions installs the definitions that a target of the Makefile has put into a directory, also of other controllers.
func InstallDefinitions(ctx context.Context, config *rest.Config, bin, target string) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	crds, err := definitionsIn(bin, target)
	if err != nil {
		return err
	}
	return define(ctx, c, crds)
}

// define installs definitions, and waits until the API server serves them.
func define(ctx context.Context, c client.Client, crds []*apiextensionsv1.CustomResourceDefinition) error {
	for _, crd := range crds {
		if err := apply(ctx, c, crd); err != nil {
			return err
		}
	}
	for _, crd := range crds {
		if err := established(ctx, c, crd.Name); err != nil {
			return err
		}
	}
	return nil
}

// documents goes through a file of YAML.
func documents(content []byte, do func([]byte) error) error {
	reader := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(content)))
	buffer := make([]byte, len(content)+1)
	for {
		n, err := reader.Read(buffer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(bytes.Trim(buffer[:n], "-\n"))) == 0 {
			continue
		}
		if err := do(buffer[:n]); err != nil {
			return err
		}
	}
}

func apply(ctx context.Context, c client.Client, o client.Object) error {
	err := c.Create(ctx, o)
	if client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("install %s: %w", o.GetName(), err)
	}
	if err == nil {
		return nil
	}
	there := o.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), there); err != nil {
		return err
	}
	o.SetResourceVersion(there.GetResourceVersion())
	return c.Update(ctx, o)
}

// established waits until the API server serves a definition.
func established(ctx context.Context, c client.Client, name string) error {
	for {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("definition %s is not established: %w", name, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// installWebhooks applies the configurations of a file, with their calls sent to a process.
func installWebhooks(ctx context.Context, c client.Client, file, address string, ca []byte) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	at := func(config *admissionregistrationv1.WebhookClientConfig) {
		url := "https://" + address
		if config.Service != nil && config.Service.Path != nil {
			url += *config.Service.Path
		}
		*config = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca}
	}
	prefix := strings.TrimSuffix(filepath.Base(file), ".yaml") + "-"
	return documents(content, func(document []byte) error {
		mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if bytes.Contains(document, []byte("kind: MutatingWebhookConfiguration")) {
			if err := yaml.UnmarshalStrict(document, mutating); err != nil {
				return err
			}
			mutating.Name = prefix + mutating.Name
			for i := range mutating.Webhooks {
				at(&mutating.Webhooks[i].ClientConfig)
			}
			return apply(ctx, c, mutating)
		}
		if err := yaml.UnmarshalStrict(document, validating); err != nil {
			return err
		}
		validating.Name = prefix + validating.Name
		for i := range validating.Webhooks {
			at(&validating.Webhooks[i].ClientConfig)
		}
		return apply(ctx, c, validating)
	})
}
