package generalize

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// evidence has the files by which a disk's profile is known: join credentials, or leftovers of the join. A file of both
// kinds of nodes (azure.json, ca.crt) is no evidence.
var evidence = map[v1alpha1.Profile][]string{
	v1alpha1.ProfileStatic: {"/etc/kubernetes/certs/client.key", "/etc/kubernetes/certs/client.crt"},
	// Only nodeadm writes the file, at each boot. (nodeadm/internal/kubelet/environment.go of awslabs/amazon-eks-ami)
	v1alpha1.ProfileEKS: {"/etc/eks/kubelet/environment"},
	v1alpha1.ProfileBootstrap: {
		"/etc/kubernetes/kubelet.conf", "/etc/kubernetes/bootstrap-kubelet.conf", "/var/lib/kubelet/kubeadm-flags.env",
		"/var/lib/kubelet/bootstrap-kubeconfig", "/var/lib/kubelet/pki/kubelet-client-*.pem", "/var/lib/kubelet/instance-config.yaml",
		"/opt/kops/conf/kube_env.yaml", "/srv/kubernetes/kubelet-server.key", "/etc/rancher/node/password", "/var/lib/rancher/*/agent/client-kubelet.key",
	},
}

// fits reports whether a profile may be used with evidence for another: bootstrap has the rules for EKS nodes too, but
// does not return the donor.
func fits(asked, found v1alpha1.Profile) bool {
	return asked == found || asked == v1alpha1.ProfileBootstrap && found == v1alpha1.ProfileEKS
}

// Evidence is a file that indicates a profile.
type Evidence struct {
	Profile v1alpha1.Profile `json:"profile"`
	Path    string           `json:"path"`
}

// Detect returns the profile of a disk with the evidence. Detect changes nothing. It returns a *Refused if there is no
// evidence, or if the evidence contradicts itself.
func Detect(t *tree.Tree) (v1alpha1.Profile, []Evidence, error) {
	found, err := lookForEvidence(t)
	if err != nil {
		return "", nil, err
	}
	if len(found) == 0 {
		return "", nil, NewRefused(fmt.Sprintf("the profile is unknown, because no file on the disk shows the bootstrap method: pass --profile, one of %v", v1alpha1.Profiles()))
	}
	for _, p := range v1alpha1.Profiles() {
		if !slices.ContainsFunc(found, func(e Evidence) bool { return !fits(p, e.Profile) }) {
			return p, found, nil
		}
	}
	other := slices.IndexFunc(found, func(e Evidence) bool { return e.Profile != found[0].Profile })
	return "", found, NewRefused(fmt.Sprintf("the disk is in doubt: /%s speaks for profile %s, /%s for profile %s",
		tree.Rel(found[0].Path), found[0].Profile, tree.Rel(found[other].Path), found[other].Profile))
}

// Agree returns a *Refused, with the right profile if known, if the disk does not match a profile. A disk without
// evidence matches any profile except eks, because eks donors return and must be recognized.
func Agree(t *tree.Tree, asked v1alpha1.Profile) error {
	found, err := lookForEvidence(t)
	if err != nil {
		return err
	}
	if len(found) == 0 && asked == v1alpha1.ProfileEKS {
		return NewRefused("the profile is eks, but the disk has no file of nodeadm (" + evidence[asked][0] + "), which is to set its node up at every boot: name another with --profile (settings.generalize.profile)")
	}
	i := slices.IndexFunc(found, func(e Evidence) bool { return !fits(asked, e.Profile) })
	if i < 0 {
		return nil
	}
	why := fmt.Sprintf("the profile asked for is %s, and %s speaks for profile %s", asked, found[i].Path, found[i].Profile)
	if other := slices.IndexFunc(found, func(e Evidence) bool { return e.Profile != found[i].Profile }); other >= 0 {
		why += fmt.Sprintf(" (other files speak for %s; the disk is in doubt)", found[other].Profile)
	} else {
		why += fmt.Sprintf(": pass --profile %s (settings.generalize.profile)", found[i].Profile)
	}
	return NewRefused(why)
}

// lookForEvidence finds evidence on a disk. After an earlier run removed the credentials, the manifest is the only
// evidence.
func lookForEvidence(t *tree.Tree) ([]Evidence, error) {
	var found []Evidence
	for _, name := range v1alpha1.Profiles() {
		for _, pattern := range evidence[name] {
			matches, err := t.Glob(tree.Rel(pattern))
			if err != nil {
				return nil, err
			}
			for _, m := range matches {
				found = append(found, Evidence{name, "/" + m.Path})
			}
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	m, err := ReadManifest(t)
	if err != nil || m == nil || !slices.Contains(v1alpha1.Profiles(), m.Profile) {
		return nil, err
	}
	return []Evidence{{m.Profile, ManifestPath}}, nil
}

// ReadManifest returns the manifest that an earlier run left in a tree; nil without a manifest.
func ReadManifest(t *tree.Tree) (*Manifest, error) {
	content, err := optional(t, tree.Rel(ManifestPath))
	if err != nil || len(content) == 0 {
		return nil, err
	}
	return ParseManifest(content)
}

// ParseManifest parses an encoded manifest.
func ParseManifest(content []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := json.Unmarshal(content, m); err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if m.Profile == "" || strings.TrimSpace(m.ProfileVersion) == "" {
		return nil, fmt.Errorf("read the manifest: the file is not a manifest of kamino-node generalize")
	}
	return m, nil
}
