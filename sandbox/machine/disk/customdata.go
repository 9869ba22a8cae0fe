package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"io/fs"

	"sigs.k8s.io/yaml"
)

// CustomDataFor is a customData with only this command.
func CustomDataFor(command string) string { return "#cloud-config\nruncmd:\n- " + command + "\n" }

// CustomData is a recipe's customData for a profile, with fresh secrets. The sandbox's cloud-init understands all its
// commands. All nodes of the pool get the same text.
func CustomData(profile Profile) string {
	facts := TemplateValues{}.Complete()
	r := &renderer{facts: facts, keys: map[string]*keyPair{}}
	text := customDataStatic
	if profile == Bootstrap {
		text = customDataBootstrap
	}
	out, err := r.render(text)
	if err != nil {
		// The templates are constants of this package, and a test renders both.
		panic(err)
	}
	return string(out)
}

const customDataStatic = `#cloud-config
write_files:
- {path: /etc/kubernetes/certs/ca.crt, permissions: "0644", content: {{printf "%q" (cert "ca")}}}
- {path: /etc/kubernetes/certs/client.crt, permissions: "0644", content: {{printf "%q" (cert "client")}}}
- {path: /etc/kubernetes/certs/client.key, permissions: "0600", content: {{printf "%q" (key "client")}}}
runcmd:
- /bin/bash /opt/azure/containers/provision.sh
`

var customDataBootstrap = CustomDataFor("kubeadm join 10.255.255.5:6443 --token {{hex 3}}.{{hex 8}} --discovery-token-ca-cert-hash sha256:{{hex 32}}")

// Orders are the orders of a customData that the sandbox carries out.
type Orders struct {
	// Files to write.
	Files []OrderedFile
	// Bootstrap: the commands make this machine a node. Profile is how the node joins.
	Bootstrap bool
	Profile   Profile
	// Commands of the bootstrap, as a single text.
	Commands string
}

// OrderedFile is an entry of cloud-init's write_files.
type OrderedFile struct {
	Path, Content string
	Mode          fs.FileMode
}

// NodeConfig is part of the user data for nodeadm. cloud-init ignores this part.
const NodeConfig = "apiVersion: node.eks.aws/v1alpha1"

// jinja is how a customData begins that cloud-init is to fill in.
const jinja = "## template: jinja\n"

// Render is a customData with the machine's name filled in, if the customData is a template. Other variables of
// cloud-init are not supported.
func Render(customData, hostname string) string {
	if !strings.HasPrefix(customData, jinja) {
		return customData
	}
	return strings.NewReplacer("{{ ds.meta_data.local_hostname }}", hostname, "{{ local_hostname }}", hostname).Replace(customData)
}

// ReadOrders reads a customData. An empty customData, a cloud-config without orders, and data for nodeadm order
// nothing. Commands and scripts bootstrap the node; commands with "kubeadm join" select the profile.
func ReadOrders(customData string) (Orders, error) {
	text := strings.TrimSpace(strings.TrimPrefix(customData, jinja))
	if text == "" || strings.Contains(text, NodeConfig) {
		return Orders{}, nil
	}
	if !strings.HasPrefix(text, "#cloud-config") {
		return Orders{Bootstrap: true, Profile: profileOf(text), Commands: text}, nil
	}
	var config struct {
		WriteFiles []struct {
			Path        string `json:"path"`
			Content     string `json:"content"`
			Permissions string `json:"permissions"`
		} `json:"write_files"`
		RunCmd  []any `json:"runcmd"`
		BootCmd []any `json:"bootcmd"`
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return Orders{}, fmt.Errorf("customData is a cloud-config that is no YAML: %w", err)
	}
	var orders Orders
	for _, file := range config.WriteFiles {
		mode, err := strconv.ParseUint(file.Permissions, 8, 32)
		if err != nil {
			mode = 0o644
		}
		orders.Files = append(orders.Files, OrderedFile{Path: file.Path, Content: file.Content, Mode: fs.FileMode(mode).Perm()})
	}
	if commands := append(config.BootCmd, config.RunCmd...); len(commands) > 0 {
		orders.Commands = fmt.Sprintln(commands...)
		orders.Bootstrap, orders.Profile = true, profileOf(orders.Commands)
	}
	return orders, nil
}

func profileOf(commands string) Profile {
	if strings.Contains(commands, "kubeadm") {
		return Bootstrap
	}
	return Static
}

// WriteFiles writes the ordered files and overwrites existing files, as cloud-init does.
func (o Orders) WriteFiles(root string) error {
	for _, file := range o.Files {
		path := filepath.Join(root, filepath.Clean("/"+file.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := WriteFile(path, []byte(file.Content), file.Mode); err != nil {
			return err
		}
	}
	return nil
}
