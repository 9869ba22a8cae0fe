package generalize

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// evidence is what only nodes of one kind have on their disks: the credential that they join with, or what
// the join leaves behind. A file that both kinds may have (azure.json, ca.crt) says nothing.
var evidence = map[v1alpha1.Profile][]string{
	v1alpha1.ProfileStatic: {"/etc/kubernetes/certs/client.key", "/etc/kubernetes/certs/client.crt"},
	// nodeadm alone writes it, at each boot. (nodeadm/internal/kubelet/environment.go of awslabs/amazon-eks-ami)
	v1alpha1.ProfileEKS: {"/etc/eks/kubelet/environment"},
	v1alpha1.ProfileBootstrap: {
		"/etc/kubernetes/kubelet.conf", "/etc/kubernetes/bootstrap-kubelet.conf", "/var/lib/kubelet/kubeadm-flags.env",
		"/var/lib/kubelet/bootstrap-kubeconfig", "/var/lib/kubelet/pki/kubelet-client-*.pem", "/var/lib/kubelet/instance-config.yaml",
		"/opt/kops/conf/kube_env.yaml", "/srv/kubernetes/kubelet-server.key",
	},
}

// fits tells whether what speaks for a profile is what another is for, too: bootstrap has the rules for nodes of EKS as well,
// and does not count on them to come back.
func fits(asked, found v1alpha1.Profile) bool {
	return asked == found || asked == v1alpha1.ProfileBootstrap && found == v1alpha1.ProfileEKS
}

// Evidence is a file that speaks for a profile.
type Evidence struct {
	Profile v1alpha1.Profile `json:"profile"`
	Path    string           `json:"path"`
}

// Detect says which profile a disk is for, and what speaks for it. It changes nothing. It returns a
// *Refused if the evidence contradicts itself, and if there is none.
func Detect(t *tree.Tree) (v1alpha1.Profile, []Evidence, error) {
	found, err := lookForEvidence(t)
	if err != nil {
		return "", nil, err
	}
	if len(found) == 0 {
		return "", nil, &Refused{Whys: []string{fmt.Sprintf("nothing on the disk tells how its node joins, so the profile is not known: name it with --profile, one of %v", v1alpha1.Profiles())}}
	}
	for _, p := range v1alpha1.Profiles() {
		if !slices.ContainsFunc(found, func(e Evidence) bool { return !fits(p, e.Profile) }) {
			return p, found, nil
		}
	}
	other := slices.IndexFunc(found, func(e Evidence) bool { return e.Profile != found[0].Profile })
	return "", found, &Refused{Whys: []string{fmt.Sprintf("the disk is in doubt: /%s speaks for profile %s, /%s for profile %s",
		tree.Rel(found[0].Path), found[0].Profile, tree.Rel(found[other].Path), found[other].Profile)}}
}

// Agree returns a *Refused, which names the right profile where there is one, unless what is on a disk goes with a
// profile. A disk that tells nothing does, but not with the profile whose donors count on what the disk is known by.
func Agree(t *tree.Tree, asked v1alpha1.Profile) error {
	found, err := lookForEvidence(t)
	if err != nil {
		return err
	}
	if len(found) == 0 && asked == v1alpha1.ProfileEKS {
		return &Refused{Whys: []string{"the profile asked for is eks, and nothing on the disk is nodeadm's (" + evidence[asked][0] + "), which is to set its node up at every boot: name another with --profile (settings.generalize.profile)"}}
	}
	i := slices.IndexFunc(found, func(e Evidence) bool { return !fits(asked, e.Profile) })
	if i < 0 {
		return nil
	}
	why := fmt.Sprintf("the profile asked for is %s, and %s speaks for profile %s", asked, found[i].Path, found[i].Profile)
	if other := slices.IndexFunc(found, func(e Evidence) bool { return e.Profile != found[i].Profile }); other >= 0 {
		why += fmt.Sprintf(" (other files speak for %s; the disk is in doubt)", found[other].Profile)
	} else {
		why += fmt.Sprintf(": name it with --profile %s (settings.generalize.profile)", found[i].Profile)
	}
	return &Refused{Whys: []string{why}}
}

// lookForEvidence finds what speaks for a profile. On a disk whose credentials were taken by an earlier run
// only the manifest of that run is left to tell.
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

// ReadManifest returns the manifest that a run left in a tree, nil if none did.
func ReadManifest(t *tree.Tree) (*Manifest, error) {
	content, err := optional(t, tree.Rel(ManifestPath))
	if err != nil || len(content) == 0 {
		return nil, err
	}
	return ParseManifest(content)
}

// ParseManifest reads an encoded manifest.
func ParseManifest(content []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := json.Unmarshal(content, m); err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if m.Profile == "" || strings.TrimSpace(m.ProfileVersion) == "" {
		return nil, fmt.Errorf("read the manifest: it is not one of kamino generalize")
	}
	return m, nil
}
