package tree

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReplaceKeepsAttributes: a replaced file has the access list, label and attributes of the old one; a new file, its
// directory and a link have the label of the directory above.
func TestReplaceKeepsAttributes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "fstab")
	if err := os.WriteFile(file, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	// The group's mask, and read permission of one user. Source: Linux, include/uapi/linux/posix_acl_xattr.h.
	acl := []byte{2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 232, 3, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255}
	want := map[string]string{"user.origin": "hand", "system.posix_acl_access": string(acl), selinux: "system_u:object_r:etc_t:s0\x00"}
	for name, value := range want {
		if err := unix.Setxattr(file, name, []byte(value), 0); err != nil {
			t.Skipf("%s cannot be set here: %v", name, err)
		}
	}
	if err := unix.Setxattr(dir, selinux, []byte("dir_t\x00"), 0); err != nil {
		t.Fatal(err)
	}
	machine, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer machine.Close()
	if err := machine.Replace("fstab", []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := machine.Replace("kamino/run.sh", []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := machine.Link("../run.sh", "kamino/wants/link"); err != nil {
		t.Fatal(err)
	}
	get := func(name, attribute string) string {
		value := make([]byte, 256)
		n, err := unix.Lgetxattr(filepath.Join(dir, name), attribute, value)
		if err != nil {
			t.Errorf("%s has no %s: %v", name, attribute, err)
			return ""
		}
		return string(value[:n])
	}
	for name, value := range want {
		if got := get("fstab", name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	for _, name := range []string{"kamino", "kamino/run.sh", "kamino/wants", "kamino/wants/link"} {
		if got := get(name, selinux); got != "dir_t\x00" {
			t.Errorf("/%s has the label %q", name, got)
		}
	}
}
