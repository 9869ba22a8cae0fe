//go:build machines

package real

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Images of the registry, by the registry's name on nodes. certs.d on the nodes contains the address.
const (
	registryName = "registry.kamino.test"
	pauseImage   = registryName + "/pause:1"
	// workloadImage needs a login.
	workloadImage = registryName + "/private/workload:1"
	// workloadFiles is the number of files in the workload's image. The list /sums has each file.
	workloadFiles = 3060
)

// registry serves handmade images, and records each request.
type registry struct {
	address string
	// user and password open the repositories below private/.
	user, password string
	blobs          map[string][]byte
	tags           map[string]string

	mu    sync.Mutex
	asked []string
}

// serveRegistry starts a registry with both images. The containers run program.
func serveRegistry(t *testing.T, address, program, password string) *registry {
	t.Helper()
	binary, err := os.ReadFile(program)
	if err != nil {
		t.Fatalf("the containers' program: %v", err)
	}
	r := &registry{user: "puller", password: password, blobs: map[string][]byte{}, tags: map[string]string{}}
	r.add(t, pauseImage, "/pause", []file{{"pause", binary, 0o755}})
	big, small := content("data/big", 60, 256<<10), content("data/small", workloadFiles-60, 3000)
	var sums bytes.Buffer
	for _, f := range append(big, small...) {
		fmt.Fprintf(&sums, "%s  /%s\n", sumOf(f.content), f.name)
	}
	r.add(t, workloadImage, "/app", []file{{"app", binary, 0o755}}, big, small, []file{{"sums", sums.Bytes(), 0o644}})
	r.listen(t, address)
	return r
}

// listen serves the images until the end of the test.
func (r *registry) listen(t *testing.T, address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	r.address = listener.Addr().String()
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // Until the server is closed.
	t.Cleanup(func() { _ = server.Close() })
}

// requests returns the requests so far with their clients.
func (r *registry) requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.asked...)
}

type file struct {
	name    string
	content []byte
	mode    int64
}

// content returns files that no other image has.
func content(prefix string, count, size int) (files []file) {
	source := rand.NewChaCha8(sha256.Sum256([]byte(prefix)))
	for i := range count {
		bytes := make([]byte, size+i%97)
		_, _ = source.Read(bytes) // Never fails.
		files = append(files, file{fmt.Sprintf("%s/%d/f%d", prefix, i/100, i), bytes, 0o644})
	}
	return files
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// descriptor of a blob (OCI image specification).
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

func (r *registry) put(kind string, content []byte) descriptor {
	d := descriptor{kind, "sha256:" + sumOf(content), len(content)}
	r.blobs[d.Digest] = content
	return d
}

// add makes an image of layers.
func (r *registry) add(t *testing.T, reference, entrypoint string, layers ...[]file) {
	t.Helper()
	var diffs []string
	var blobs []descriptor
	for _, files := range layers {
		plain, packed := layer(t, files)
		diffs, blobs = append(diffs, "sha256:"+sumOf(plain)), append(blobs, r.put(layerType, packed))
	}
	config := r.put(configType, encode(t, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Entrypoint": []string{entrypoint}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	}))
	manifest := r.put(manifestType, encode(t, map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": blobs}))
	r.tags[strings.TrimPrefix(reference, registryName+"/")] = manifest.Digest
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// layer packs files and their directories.
func layer(t *testing.T, files []file) (plain, packed []byte) {
	t.Helper()
	var out, zipped bytes.Buffer
	w, z := tar.NewWriter(&out), gzip.NewWriter(&zipped)
	made := map[string]bool{".": true}
	add := func(h *tar.Header, content []byte) {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		var parents []string
		for dir := path.Dir(f.name); !made[dir]; dir = path.Dir(dir) {
			made[dir], parents = true, append([]string{dir}, parents...)
		}
		for _, dir := range parents {
			add(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}, nil)
		}
		add(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content))}, f.content)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), zipped.Bytes()
}

// ServeHTTP is the part of the OCI distribution specification that pulls need.
func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	from, _, _ := net.SplitHostPort(q.RemoteAddr)
	r.mu.Lock()
	r.asked = append(r.asked, from+" "+q.Method+" "+q.URL.Path)
	r.mu.Unlock()
	parts := strings.Split(strings.TrimPrefix(q.URL.Path, "/v2/"), "/")
	if len(parts) < 3 {
		return // Clients that request the API version get 200.
	}
	name, kind, reference := strings.Join(parts[:len(parts)-2], "/"), parts[len(parts)-2], parts[len(parts)-1]
	if user, password, _ := q.BasicAuth(); strings.HasPrefix(name, "private/") && (user != r.user || password != r.password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="`+registryName+`"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
		return
	}
	contentType := "application/octet-stream"
	if kind == "manifests" {
		contentType = manifestType
		if digest, tagged := r.tags[name+":"+reference]; tagged {
			reference = digest
		}
	}
	blob, known := r.blobs[reference]
	if !known {
		http.Error(w, `{"errors":[{"code":"NAME_UNKNOWN"}]}`, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Docker-Content-Digest", reference)
	http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(blob))
}
