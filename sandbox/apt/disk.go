package apt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/machine/chroot"
)

// directories that apt and dpkg expect.
var directories = []string{
	"etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/sources.list.d", "etc/apt/trusted.gpg.d", "etc/dpkg/dpkg.cfg.d",
	"var/cache/apt/archives/partial", "var/lib/apt/lists/partial", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers",
	"var/lib/dpkg/alternatives", "var/log/apt",
}

// Install gives a disk apt, with the repository as the only source. Clones of the disk inherit both.
func (r *Repository) Install(root string) error {
	if err := chroot.Link(root); err != nil {
		return err
	}
	for _, dir := range directories {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	// Not in armor: apt-key would need awk, which is no program of a fixed name.
	var key bytes.Buffer
	if err := r.key.Serialize(&key); err != nil {
		return err
	}
	source := "deb [arch=amd64 signed-by=/etc/apt/keyrings/sandbox.gpg] " + r.url
	for path, text := range map[string]string{
		"etc/apt/keyrings/sandbox.gpg": key.String(),
		"etc/apt/sources.list":         fmt.Sprintf("%s %s main\n%s %s main\n", source, Release, source, Security),
		// No other user exists in the namespace of a sandbox without root.
		"etc/apt/apt.conf.d/99sandbox": "APT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\nAcquire::Retries \"0\";\n",
	} {
		if err := write(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return complete(filepath.Join(root, "var/lib/dpkg"))
}

// complete adds the fields and files to dpkg's database that dpkg --audit demands.
func complete(database string) error {
	path := filepath.Join(database, "status")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var out strings.Builder
	for stanza := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		name := ""
		for line := range strings.Lines(stanza) {
			if value, found := strings.CutPrefix(line, "Package: "); found {
				name = strings.TrimSpace(value)
			}
		}
		if name == "" {
			continue
		}
		out.WriteString(strings.TrimSpace(stanza) + "\n")
		if !strings.Contains(stanza, "Maintainer: ") {
			fmt.Fprintf(&out, "Maintainer: Sandbox <sandbox@example.com>\nDescription: %s\n", name)
		}
		out.WriteString("\n")
		err := errors.Join(
			write(filepath.Join(database, "info", name+".list"), []byte("/.\n"), 0o644),
			write(filepath.Join(database, "info", name+".md5sums"), nil, 0o644))
		if err != nil {
			return err
		}
	}
	return write(path, []byte(out.String()), 0o644)
}
