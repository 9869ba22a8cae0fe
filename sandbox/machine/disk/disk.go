// Package disk creates, reads and copies the directory trees that replace OS disks in the sandbox. Such a disk is a
// small Ubuntu node of an AKS Engine or kubeadm cluster, or an EKS node. Package machine decides when a disk changes.
//
// The tables in the layout_*.go files define the content. They hold no secrets: keys, tokens and IDs are random in
// every file.
package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// Profile is how a node with this disk joins its cluster.
type Profile string

const (
	// Static: the kubelet's credential is the cluster's and is on the disk (AKS Engine).
	Static Profile = "static"
	// Bootstrap: each node joins with its own credential (kubeadm).
	Bootstrap Profile = "bootstrap"
	// EKS: nodeadm sets the node up at each boot, and the node joins with the role of its instance.
	EKS Profile = "eks"
)

// TemplateValues are the values for the layout's templates. Empty fields get a default or a random value; see Complete.
type TemplateValues struct {
	// Platform of the disk's image; Azure if empty.
	Platform Platform
	// Hostname of the machine, and name of the Node.
	Hostname string
	// VMID is the platform's UUID of the VM, and cloud-init's instance-id on Azure; on EC2 it is the instance's ID.
	VMID string
	// MachineID is systemd's: 32 hexadecimal digits.
	MachineID string
	// MAC and IP of the machine's interface.
	MAC, IP string
	// CustomData for cloud-init.
	CustomData string
	// Kernel release, such as "5.15.0-1071-azure", and the kubelet's version with "v".
	Kernel, Kubelet string
	// Labels and Taints of the new Node, in the format of the kubelet's flags; empty for none.
	Labels, Taints string
	// Now is the time in logs and leases.
	Now time.Time
}

// Server is the host of the API server in an invented kubeconfig.
const Server = "10.255.255.5"

// Defaults of TemplateValues: the release of a generic image without patches.
const (
	DefaultKernel  = "5.15.0-1071-azure"
	DefaultKubelet = "v1.37.1"
)

// Complete sets empty fields: random IDs, and the default versions above.
func (f TemplateValues) Complete() TemplateValues {
	setDefault(&f.MachineID, func() string { return randomHex(16) })
	setDefault(&f.VMID, randomUUID)
	setDefault(&f.Hostname, func() string { return "node-" + randomHex(3) })
	setDefault(&f.MAC, func() string { return "00:0d:3a:" + spaced(randomHex(3)) })
	setDefault(&f.IP, func() string { return "10.240.0.4" })
	if f.Platform == "" {
		f.Platform = OnAzure
	}
	setDefault(&f.Kernel, func() string { return f.Platform.Release() })
	setDefault(&f.Kubelet, func() string { return DefaultKubelet })
	if f.Now.IsZero() {
		f.Now = time.Now().UTC()
	}
	return f
}

func setDefault(field *string, value func() string) {
	if *field == "" {
		*field = value()
	}
}

// row is a file of a layout. A path with a "/" at the end is a directory. A text with "-> " at the start is the
// target of a symbolic link. Other texts are templates over TemplateValues. Paths are templates, too.
type row struct {
	path string
	mode fs.FileMode
	text string
}

// table is a part of a layout, in the order of writing.
type table []row

// write creates missing files under root, and never changes existing files. So a machine creates its identity, and a
// disk with its donor's identity keeps the identity.
func (t table) write(root string, facts TemplateValues) error {
	r := &renderer{facts: facts.Complete(), keys: map[string]*keyPair{}}
	for _, row := range t {
		if err := r.write(root, row); err != nil {
			return fmt.Errorf("disk %s: write %s: %w", root, row.path, err)
		}
	}
	return nil
}

type renderer struct {
	facts TemplateValues
	keys  map[string]*keyPair
}

func (r *renderer) write(root string, row row) error {
	name, err := r.render(row.path)
	if err != nil {
		return err
	}
	path := filepath.Join(root, string(name))
	if strings.HasSuffix(row.path, "/") {
		return makeDir(path, row.mode)
	}
	if _, err := os.Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	text, err := r.render(row.text)
	if err != nil {
		return err
	}
	if target, found := bytes.CutPrefix(text, []byte("-> ")); found {
		return os.Symlink(string(target), path)
	}
	return WriteFile(path, text, row.mode)
}

func (r *renderer) render(text string) ([]byte, error) {
	if !strings.Contains(text, "{{") {
		return []byte(text), nil
	}
	parsed, err := template.New("").Funcs(r.functions()).Parse(text)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, r.facts); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func makeDir(path string, mode fs.FileMode) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// WriteFile replaces the content of a file in place, with exactly this mode, for any umask. Read-only files are
// written, too, as by root: a sandbox need not run as root.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// Append appends a text to a file, and creates a missing file.
func Append(path, text string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// Generic writes a platform image, as a publisher ships the image: without identity.
func Generic(root string, facts TemplateValues) error {
	facts = facts.Complete()
	return errors.Join(platform.write(root, facts), platforms[facts.Platform].write(root, facts))
}

// UsedNode writes the disk of a node after a long time in service: all files of this package's layouts, and leftovers
// of agents and operators. UsedNode returns the used facts, so that a test can search for leftovers.
func UsedNode(root string, profile Profile, facts TemplateValues) (TemplateValues, error) {
	facts = facts.Complete()
	if facts.CustomData == "" {
		facts.CustomData = CustomData(profile)
	}
	steps := []func() error{
		func() error { return Generic(root, facts) },
		func() error { return FirstBoot(root, facts) },
		func() error { return Provision(root, facts) },
		func() error { return NewInstance(root, facts) },
		func() error { return InstallNode(root, facts) },
		func() error { return Join(root, profile, facts) },
		func() error { return Serve(root, facts) },
		func() error { return Agents(root, facts) },
		func() error { return Traces(root, facts) },
		func() error { return old.write(root, facts) },
		func() error { return runExtension(root) },
		func() error { return oldPod(root) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return facts, err
		}
	}
	return facts, nil
}

func runExtension(root string) error {
	return RecordExtension(root, "Microsoft.Azure.Extensions.CustomScript", "vmssCSE")
}

func oldPod(root string) error {
	for _, image := range BaseImages {
		if err := AddImage(root, image); err != nil {
			return err
		}
	}
	return AddPod(root, PodRecord{UID: randomUUID(), Namespace: "default", Name: "web-0", IP: "10.244.0.7"})
}
