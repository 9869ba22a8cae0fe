//go:build machines

package real

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// aptRepository is a signed repository over HTTP, with a suite and its security suite. Trouble is one of the ways in
// which repositories fail.
type aptRepository struct {
	dir, gnupg string
	url        string

	mu      sync.Mutex
	trouble aptTrouble
	// released lets stalled requests end.
	released chan struct{}
	// changed is the time of the last index. apt asks whether an index is newer, to the second.
	changed time.Time
}

type aptTrouble string

const (
	noTrouble aptTrouble = ""
	// stopped closes every connection without an answer.
	stopped aptTrouble = "stopped"
	// stalled answers with headers only.
	stalled aptTrouble = "stalled"
	// truncated cuts the indexes of packages in half, but not their checksums.
	truncated aptTrouble = "truncated"
	// corrupt changes packages on the way.
	corrupt aptTrouble = "corrupt"
)

// Suites of the repository.
const (
	suiteStable   = "stable"
	suiteSecurity = "stable-security"
)

func (l *lab) serveApt(t *testing.T) *aptRepository {
	t.Helper()
	requireTools(t, aptPrograms)
	r := &aptRepository{dir: filepath.Join(l.dir, "apt"), gnupg: filepath.Join(l.dir, "gnupg"), released: make(chan struct{}), changed: time.Now().Add(-time.Hour)}
	if err := os.MkdirAll(r.gnupg, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"good", "other"} {
		r.gpg(t, "--passphrase", "", "--quick-generate-key", key+" <"+key+"@example.com>", "rsa2048", "sign", "never")
	}
	t.Cleanup(func() { _, _ = attempt("gpgconf", "--homedir", r.gnupg, "--kill", "gpg-agent") })
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(l.address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(r)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(r.released) })
	r.url = server.URL
	return r
}

func (r *aptRepository) gpg(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, "gpg", append([]string{"--homedir", r.gnupg, "--batch", "--quiet", "--yes"}, args...)...)
}

func (r *aptRepository) fail(trouble aptTrouble) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trouble = trouble
}

func (r *aptRepository) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	trouble := r.trouble
	r.mu.Unlock()
	isIndex := strings.Contains(q.URL.Path, "/Packages")
	switch {
	case trouble == stopped:
		panic(http.ErrAbortHandler)
	case trouble == stalled && strings.HasSuffix(q.URL.Path, "InRelease"):
		w.Header().Set("Content-Length", "100000")
		w.WriteHeader(http.StatusOK)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		select {
		case <-q.Context().Done():
		case <-r.released:
		}
		return
	case trouble == truncated && isIndex, trouble == corrupt && strings.HasSuffix(q.URL.Path, ".deb"):
		content, err := os.ReadFile(filepath.Join(r.dir, filepath.Clean(q.URL.Path)))
		if err != nil {
			http.NotFound(w, q)
			return
		}
		if isIndex {
			content = content[:len(content)/2]
		} else {
			content[len(content)/2] ^= 1
		}
		_, _ = w.Write(content)
		return
	}
	http.FileServer(http.Dir(r.dir)).ServeHTTP(w, q)
}

// aptPackage is a package of the repository. Fields are lines of its control file; scripts are by their name.
type aptPackage struct {
	name, version string
	fields        []string
	files         map[string]string
	scripts       map[string]string
	conffiles     []string
}

// add builds a package into the pool of a suite. publish makes the suite show the package.
func (r *aptRepository) add(t *testing.T, suite string, p aptPackage) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(r.dir), "build", p.name+"_"+p.version)
	control := []string{
		"Package: " + p.name, "Version: " + p.version, "Architecture: all", "Maintainer: test <test@example.com>", "Description: a package of a test",
	}
	write(t, filepath.Join(dir, "DEBIAN/control"), strings.Join(append(control, p.fields...), "\n")+"\n", 0o644)
	for path, content := range p.files {
		write(t, filepath.Join(dir, path), content, 0o644)
	}
	for name, script := range p.scripts {
		write(t, filepath.Join(dir, "DEBIAN", name), "#!/bin/sh\nset -e\n"+script, 0o755)
	}
	if len(p.conffiles) > 0 {
		write(t, filepath.Join(dir, "DEBIAN/conffiles"), strings.Join(p.conffiles, "\n")+"\n", 0o644)
	}
	pool := filepath.Join(r.dir, "pool", suite)
	if err := os.MkdirAll(pool, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "dpkg-deb", "--root-owner-group", "-b", dir, filepath.Join(pool, p.name+"_"+p.version+".deb"))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// publish writes the indexes of a suite, signed by the key. valid is how long the indexes are valid from now; negative for
// expired indexes.
func (r *aptRepository) publish(t *testing.T, suite, key string, valid time.Duration) {
	t.Helper()
	dist := filepath.Join(r.dir, "dists", suite)
	index := filepath.Join(dist, "main/binary-amd64/Packages")
	if err := os.MkdirAll(filepath.Join(r.dir, "pool", suite), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, index, run(t, "sh", "-c", `cd "$1" && apt-ftparchive packages "pool/$2"`, "sh", r.dir, suite), 0o644)
	label := "Debian"
	if suite == suiteSecurity {
		label = "Debian-Security"
	}
	options := []string{}
	for name, value := range map[string]string{
		"Origin": "Debian", "Label": label, "Suite": suite, "Codename": suite, "Version": "12", "Architectures": "amd64", "Components": "main",
		"ValidTime": fmt.Sprint(int(max(valid, time.Second).Seconds())),
	} {
		options = append(options, "-o", "APT::FTPArchive::Release::"+name+"="+value)
	}
	for _, old := range []string{"Release", "InRelease"} {
		if err := os.Remove(filepath.Join(dist, old)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	release := run(t, "apt-ftparchive", append(options, "release", dist)...)
	if valid < 0 {
		release = replaceLine(release, "Date", time.Now().Add(valid-time.Hour))
		release = replaceLine(release, "Valid-Until", time.Now().Add(valid))
	}
	write(t, filepath.Join(dist, "Release"), release, 0o644)
	signed := filepath.Join(dist, "InRelease")
	r.gpg(t, "--local-user", key, "--clearsign", "--output", signed, filepath.Join(dist, "Release"))
	r.changed = r.changed.Add(time.Second)
	if err := os.Chtimes(signed, r.changed, r.changed); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dist, "Release")); err != nil {
		t.Fatal(err)
	}
}

func replaceLine(text, field string, at time.Time) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, field+":") {
			line = field + ": " + at.UTC().Format("Mon, 02 Jan 2006 15:04:05 UTC") + "\n"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// use makes the repository the only one of a machine.
func (r *aptRepository) use(t *testing.T, m *machine) {
	t.Helper()
	key := r.gpg(t, "--export", "--armor", "good")
	write(t, filepath.Join(m.root, "etc/apt/keyrings/test.asc"), key, 0o644)
	var sources strings.Builder
	for _, suite := range []string{suiteStable, suiteSecurity} {
		fmt.Fprintf(&sources, "deb [arch=amd64 signed-by=/etc/apt/keyrings/test.asc] %s/ %s main\n", r.url, suite)
	}
	write(t, filepath.Join(m.root, "etc/apt/sources.list"), sources.String(), 0o644)
	// A stalled repository shall not take minutes.
	write(t, filepath.Join(m.root, "etc/apt/apt.conf.d/99test"), "Acquire::http::Timeout \"2\";\nAcquire::Retries \"0\";\nAcquire::Languages \"none\";\n", 0o644)
}
