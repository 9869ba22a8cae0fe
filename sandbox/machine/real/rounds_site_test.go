//go:build machines

package real

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// Packages and images that the writers of a donor install, pull and remove.
const (
	sitePackages, siteFiles = 12, 60
	siteImages, imageFiles  = 6, 150
	baseImage               = "base:1"
)

// siteWriters are services of a donor by their names. The scripts are beside the disk. Package managers and pulls begin again and again, and
// end themselves when they are asked to.
var siteWriters = map[string]string{
	"site-dpkg": `i=0; while ! [ -e /run/enough ]; do
	n=$((i % 4 * 3)); names="site-$n site-$((n + 1)) site-$((n + 2))"
	dpkg -i $(for name in $names; do echo /mnt/site/$name.deb; done); sleep 1
	[ $((i % 2)) = 0 ] || dpkg -P $names; sleep 1
	i=$((i + 1)); echo $i transactions of dpkg | tr " " _ >/run/rounds-of-dpkg
done`,
	"site-pull": `i=0; while ! [ -e /run/enough ]; do
	ctr -n k8s.io images pull --plain-http $REGISTRY/image$((i % 6)):1 >/dev/null
	i=$((i + 1)); echo $i pulls | tr " " _ >/run/rounds-of-pull; sleep 1
	[ $i -lt 4 ] || ctr -n k8s.io images rm --sync $REGISTRY/image$(((i - 4) % 6)):1
done`,
	"site-sync": `mkdir -p /var/lib/site; n=0; while :; do
	n=$((n + 1)); echo $n >>/var/lib/site/acknowledged; sync -d /var/lib/site/acknowledged
	echo $n >/run/acknowledged.new; mv /run/acknowledged.new /run/acknowledged; sleep 0.05
done`,
	"site-log": `while :; do echo "a line of the log"; sleep 0.05; done`,
}

// addSite puts packages, scripts and images where a donor finds them, and returns the references of the images.
func (l *lab) addSite(t *testing.T) (images []string) {
	t.Helper()
	site := filepath.Join(l.media, "site")
	for i := range sitePackages {
		files := map[string]string{}
		for _, f := range content(fmt.Sprintf("usr/share/site-%d", i), siteFiles, 2000) {
			files[f.name] = string(f.content)
		}
		l.buildSite(t, fmt.Sprintf("site-%d", i), files, "true")
	}
	l.buildSite(t, "site-slow", nil, "touch /run/slow; while ! [ -e /run/go ]; do sleep 0.1; done")
	r := &registry{blobs: map[string][]byte{}, tags: map[string]string{}}
	for i := range siteImages {
		name := fmt.Sprintf("image%d", i)
		r.add(t, registryName+"/"+name+":1", "/none", content("data/"+name+"/a", imageFiles, 3000), content("data/"+name+"/b", imageFiles, 3000))
	}
	r.add(t, registryName+"/"+baseImage, "/none", content("data/base", imageFiles, 3000))
	r.listen(t, l.address)
	for name, script := range siteWriters {
		write(t, filepath.Join(site, name), "set -e\nREGISTRY="+r.address+"\n"+script+"\n", 0o644)
	}
	for i := range siteImages {
		images = append(images, fmt.Sprintf("%s/image%d:1", r.address, i))
	}
	return append(images, r.address+"/"+baseImage)
}

// buildSite builds a package.
func (l *lab) buildSite(t *testing.T, name string, files map[string]string, configure string) {
	t.Helper()
	dir := filepath.Join(l.dir, "package-"+name)
	control := fmt.Sprintf("Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: Example <packages@example.com>\nDescription: stands for a package of a node\n", name)
	write(t, filepath.Join(dir, "DEBIAN/control"), control, 0o644)
	write(t, filepath.Join(dir, "DEBIAN/postinst"), "#!/bin/sh\nset -e\n"+configure+"\n", 0o755)
	for path, content := range files {
		write(t, filepath.Join(dir, path), content, 0o644)
	}
	if err := os.MkdirAll(filepath.Join(l.media, "site"), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "dpkg-deb", "--root-owner-group", "-Znone", "-b", dir, filepath.Join(l.media, "site", name+".deb"))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// startWriters starts the writers, and waits until each has written.
func (d *copyDonor) startWriters(t *testing.T) {
	t.Helper()
	for name := range siteWriters {
		d.m.sh(t, "systemd-run -q --unit="+name+" sh /mnt/site/"+name)
	}
	await(t, "the writers to write", func() bool {
		_, err := d.m.try("test -e /run/rounds-of-dpkg && test -e /run/rounds-of-pull && test -e /run/acknowledged")
		return err == nil
	})
}

// mountedCopy shows a cleaned copy read-only, next to the mounted disk with the same UUID.
func mountedCopy(t *testing.T, kind, image string, do func(root string)) {
	t.Helper()
	root := image + ".tree"
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("ro,loop,offset=%d", rootOffset(t, image))
	if kind == "xfs" {
		options += ",nouuid"
	}
	run(t, "mount", "-o", options, image, root)
	defer detach(t, image, root)
	do(root)
}

// judge judges a cleaned copy by its state, without Kamino's code.
func (d *copyDonor) judge(t *testing.T, c *aCopy) {
	t.Helper()
	checkFileSystem(t, d.kind, c.path)
	mountedCopy(t, d.kind, c.path, func(root string) {
		packages := testPackages(t, root)
		images, layers := d.testImages(t, root)
		c.details += fmt.Sprintf("; %d packages of the writers, %d images, %d layers", packages, images, layers)
		written, err := os.ReadFile(filepath.Join(root, "var/lib/site/acknowledged"))
		if err != nil {
			t.Error(err)
		}
		lines := strings.Split(string(written), "\n")
		for i := range c.acknowledged {
			if i >= len(lines) || lines[i] != fmt.Sprint(i+1) {
				t.Errorf("of %d acknowledged lines, line %d is lost", c.acknowledged, i+1)
				break
			}
		}
		for _, gone := range []string{"var/lib/kamino/quiesce", "root/.bash_history"} {
			if _, err := os.Lstat(filepath.Join(root, gone)); !os.IsNotExist(err) {
				t.Errorf("/%s is on the cleaned copy: %v", gone, err)
			}
		}
		if id, err := os.ReadFile(filepath.Join(root, "etc/machine-id")); err != nil || strings.TrimSpace(string(id)) != "" {
			t.Errorf("the machine ID is %q, %v", id, err)
		}
	})
}

// testPackages requires that dpkg knows no half package, and that the packages of the writers are there as a whole or not at all.
func testPackages(t *testing.T, root string) (installed int) {
	t.Helper()
	if audit := run(t, "dpkg", "--root="+root, "--audit"); audit != "" {
		t.Errorf("dpkg --audit: %s", audit)
	}
	var names []string
	for line := range strings.Lines(run(t, "dpkg-query", "--admindir="+root+"/var/lib/dpkg", "-W", "-f", "${Package} ${db:Status-Status}\n")) {
		if name, is := strings.CutSuffix(strings.TrimSpace(line), " installed"); is && strings.HasPrefix(name, "site-") {
			names = append(names, name)
		}
	}
	for i := range sitePackages {
		name := fmt.Sprintf("site-%d", i)
		found, err := filepath.Glob(filepath.Join(root, "usr/share", name, "*/*"))
		want := 0
		if slices.Contains(names, name) {
			want = siteFiles
		}
		if err != nil || len(found) != want {
			t.Errorf("%s has %d files, want %d: %v", name, len(found), want, err)
		}
		if want > 0 {
			if changed, err := attempt("dpkg", "--root="+root, "--verify", name); err != nil || changed != "" {
				t.Errorf("dpkg --verify %s: %s %v", name, changed, err)
			}
		}
	}
	return len(names)
}

// testImages requires that each image that containerd names has all blobs, and that its unpacked layers are as in their archives. The image that
// nothing pulls meanwhile must be unpacked.
func (d *copyDonor) testImages(t *testing.T, root string) (images, layers int) {
	t.Helper()
	named := imagesOf(t, root)
	w, base := checkStore(t, root, slices.Collect(maps.Values(named))...), d.baseImage()
	if named[base] == "" {
		t.Errorf("containerd does not know %s: %v", base, named)
	}
	for name, digest := range named {
		// The plugin of the kubelet's interface names each image by its ID, too.
		if !slices.Contains(d.images, name) && !strings.HasPrefix(name, "sha256:") {
			t.Errorf("containerd knows %s", name)
		}
		if _, err := os.Stat(filepath.Join(root, blobDir, strings.TrimPrefix(digest, "sha256:"))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, damage := range w.damage {
		// A pull is not at its end.
		if !strings.Contains(damage, "is not unpacked") || strings.Contains(damage, named[base]) {
			t.Errorf("containerd's store: %s", damage)
		}
	}
	return len(named), w.layers
}

// imagesOf returns the manifest of each image that containerd names. Source: containerd, metadata/buckets.go.
func imagesOf(t *testing.T, root string) map[string]string {
	t.Helper()
	db, err := bolt.Open(filepath.Join(root, "var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"), 0o400, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found := map[string]string{}
	err = db.View(func(tx *bolt.Tx) error {
		all := tx.Bucket([]byte("v1")).Bucket([]byte("k8s.io")).Bucket([]byte("images"))
		return all.ForEachBucket(func(name []byte) error {
			found[string(name)] = string(all.Bucket(name).Bucket([]byte("target")).Get([]byte("digest")))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
