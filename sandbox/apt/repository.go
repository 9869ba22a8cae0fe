// Package apt serves a repository of packages to machines of the sandbox. The packages are built by dpkg-deb, the indexes
// are signed, and the machines read them with apt of this host (package machine/chroot). The package decides the content
// of a repository; it does not install packages.
package apt

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/kamino-dev/kamino/sandbox/machine/chroot"
)

// Suites of a repository. Security has the packages of Publish; Release is empty.
const (
	Release  = "jammy"
	Security = "jammy-security"
)

// Package is a version of a package.
type Package struct {
	Name, Version string
	// Before is the previous version, and CVEs are fixed since, as the changelog says.
	Before string
	CVEs   []string
	// Size of the package's files in bytes.
	Size int64
	// Postinst is the script after the unpacking, without its first line.
	Postinst string
}

// RequestReboot is a Postinst that asks for a reboot. Source: update-notifier-common, notify-reboot-required.
const RequestReboot = `if [ "$1" = configure ]; then
	echo '*** System restart required ***' > /run/reboot-required
	echo "$DPKG_MAINTSCRIPT_PACKAGE" >> /run/reboot-required.pkgs
fi
`

// Traffic is what the repository has sent.
type Traffic struct {
	Requests int
	// Bytes of the answers, without headers.
	Bytes int64
}

// Since is the traffic after an earlier one.
func (t Traffic) Since(earlier Traffic) Traffic {
	return Traffic{Requests: t.Requests - earlier.Requests, Bytes: t.Bytes - earlier.Bytes}
}

// Repository is a signed repository over HTTP on the loopback address.
type Repository struct {
	dir, url string
	key      *openpgp.Entity
	server   *http.Server

	mu      sync.Mutex
	traffic Traffic
}

// Serve starts an empty repository in a new directory.
func Serve(dir string) (*Repository, error) {
	if err := chroot.Check(); err != nil {
		return nil, err
	}
	key, err := openpgp.NewEntity("sandbox", "", "sandbox@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Repository{dir: dir, url: "http://" + listener.Addr().String(), key: key}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = r.server.Serve(listener) }()
	if err := errors.Join(r.index(Release), r.index(Security)); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close stops the server.
func (r *Repository) Close() error { return r.server.Close() }

// Traffic since the start.
func (r *Repository) Traffic() Traffic {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.traffic
}

// ServeHTTP implements http.Handler.
func (r *Repository) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	// Times of files have full seconds in HTTP, and a second release may follow within one second.
	q.Header.Del("If-Modified-Since")
	c := &counter{ResponseWriter: w}
	http.FileServer(http.Dir(r.dir)).ServeHTTP(c, q)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.traffic.Requests++
	r.traffic.Bytes += c.bytes
}

// counter counts the bytes of an answer.
type counter struct {
	http.ResponseWriter
	bytes int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes += int64(n)
	return n, err
}

// Publish adds packages to the security suite.
func (r *Repository) Publish(packages ...Package) error {
	for _, p := range packages {
		if err := r.build(p); err != nil {
			return fmt.Errorf("build package %s %s: %w", p.Name, p.Version, err)
		}
	}
	return r.index(Security)
}

func (r *Repository) pool(suite string) string { return filepath.Join(r.dir, "pool", suite) }

// file of a package.
type file struct {
	path    string
	content []byte
	mode    os.FileMode
}

// build builds a package with dpkg-deb.
func (r *Repository) build(p Package) error {
	dir, err := os.MkdirTemp("", "package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	changelog := fmt.Sprintf("%s (%s) %s; urgency=medium\n\n", p.Name, p.Version, Security)
	for _, cve := range p.CVEs {
		changelog += "  * SECURITY UPDATE: " + cve + "\n"
	}
	const trailer = "\n -- Sandbox <sandbox@example.com>  Fri, 06 Mar 2026 09:00:00 +0000\n"
	changelog += trailer + fmt.Sprintf("\n%s (%s) %s; urgency=medium\n\n  * Initial release.\n", p.Name, p.Before, Release) + trailer
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	if _, err := z.Write([]byte(changelog)); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	filler := make([]byte, p.Size)
	_, _ = rand.Read(filler)
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: amd64\nInstalled-Size: %d\nMaintainer: Sandbox <sandbox@example.com>\nDescription: "+
		"a package of the sandbox\n",
		p.Name, p.Version, p.Size>>10+8)
	files := []file{
		{"DEBIAN/control", []byte(control), 0o644},
		{"usr/share/" + p.Name + "/data", filler, 0o644},
		{"usr/share/doc/" + p.Name + "/changelog.Debian.gz", compressed.Bytes(), 0o644},
	}
	if p.Postinst != "" {
		files = append(files, file{"DEBIAN/postinst", []byte("#!/bin/sh\nset -e\n" + p.Postinst), 0o755})
	}
	for _, f := range files {
		if err := write(filepath.Join(dir, f.path), f.content, f.mode); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.MkdirAll(r.pool(Security), 0o755)); err != nil {
		return err
	}
	_, err = output("dpkg-deb", "--root-owner-group", "--build", dir, filepath.Join(r.pool(Security), p.Name+"_"+p.Version+".deb"))
	return err
}

// index writes the list of packages and the signed InRelease of a suite.
func (r *Repository) index(suite string) error {
	list, err := r.list(suite)
	if err != nil {
		return err
	}
	const packages = "main/binary-amd64/Packages"
	dist := filepath.Join(r.dir, "dists", suite)
	if err := write(filepath.Join(dist, packages), []byte(list), 0o644); err != nil {
		return err
	}
	now := time.Now().UTC()
	stamp := func(at time.Time) string { return at.Format("Mon, 02 Jan 2006 15:04:05 UTC") }
	var signed bytes.Buffer
	w, err := clearsign.Encode(&signed, r.key.PrivateKey, nil)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "Origin: Ubuntu\nLabel: Ubuntu\nSuite: %s\nCodename: jammy\nVersion: 22.04\nDate: %s\nValid-Until: %s\n"+
		"Architectures: amd64\nComponents: main\nSHA256:\n %s %d %s\n", suite, stamp(now), stamp(now.AddDate(0, 0, 7)), sum([]byte(list)), len(list), packages)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return write(filepath.Join(dist, "InRelease"), signed.Bytes(), 0o644)
}

// list is the content of Packages.
func (r *Repository) list(suite string) (string, error) {
	debs, err := filepath.Glob(filepath.Join(r.pool(suite), "*.deb"))
	if err != nil {
		return "", err
	}
	slices.Sort(debs)
	var list strings.Builder
	for _, deb := range debs {
		control, err := output("dpkg-deb", "--field", deb)
		if err != nil {
			return "", err
		}
		content, err := os.ReadFile(deb)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&list, "%sFilename: pool/%s/%s\nSize: %d\nSHA256: %s\n\n", control, suite, filepath.Base(deb), len(content), sum(content))
	}
	return list.String(), nil
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

func write(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

func output(program string, args ...string) (string, error) {
	out, err := exec.CommandContext(context.Background(), program, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w: %s", program, err, exit.Stderr)
	}
	return string(out), err
}
