package disk

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	containerdBlob = "var/lib/containerd/io.containerd.content.v1.content/blobs/sha256"
	containerdCRI  = "var/lib/containerd/io.containerd.grpc.v1.cri"
	containerdTask = "var/lib/containerd/io.containerd.runtime.v2.task/k8s.io"
)

// Digest is the digest of a text: of content, or of an image's name.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// AddImage pulls a container image: content, an unpacked layer, and the image in the runtime's metadata. Of these, the runtime syncs all
// but the layer's files. Source: containerd 1.6, content/local/writer.go, and archive/tar.go.
func AddImage(root, image string) error {
	if HasImage(root, image) {
		return nil
	}
	defer Writing(root)()
	text := []byte(image + "\n")
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := w.WriteHeader(&tar.Header{Name: "etc/image", Mode: 0o644, Size: int64(len(text))})
	_, failed := w.Write(text)
	if err := errors.Join(err, failed, w.Close()); err != nil {
		return err
	}
	sizes := map[string]int64{}
	layer, err := addBlob(root, sizes, archive.String())
	if err != nil {
		return err
	}
	config, err := addBlob(root, sizes, `{"rootfs":{"type":"layers","diff_ids":["`+layer+`"]}}`)
	if err != nil {
		return err
	}
	manifest, err := addBlob(root, sizes, fmt.Sprintf(`{"schemaVersion":2,"config":{"digest":%q},"layers":[{"digest":%q}]}`, config, layer))
	if err != nil {
		return err
	}
	return errors.Join(WriteFile(filepath.Join(snapshotDir(root, layer), "fs/etc/image"), text, 0o644),
		addSnapshot(root, layer, snapshotCommitted), recordImage(root, image, manifest, layer, sizes))
}

// BeginPull leaves the trace of an open download, as the runtime does, until done is called. Source: containerd, content/local.
func BeginPull(root, image string) (done func() error, err error) {
	trace := filepath.Join(root, "var/lib/containerd/io.containerd.content.v1.content/ingest", Digest(image))
	return func() error { return os.RemoveAll(trace) }, WriteFile(filepath.Join(trace, "data"), nil, 0o600)
}

// addBlob adds content to the runtime's store, and returns its digest.
func addBlob(root string, sizes map[string]int64, content string) (digest string, err error) {
	name := filepath.Join(containerdBlob, Digest(content))
	if err := WriteFile(filepath.Join(root, name), []byte(content), 0o444); err != nil {
		return "", err
	}
	digest = "sha256:" + filepath.Base(name)
	sizes[digest] = int64(len(content))
	return digest, Fsync(root, name)
}

// HasImage reports whether the image is complete in the warm cache. Empty content is not complete: a copy of a
// running runtime's disk can have such content.
func HasImage(root, image string) bool { return slices.Contains(Images(root), image) }

// Images lists the warm cache.
func Images(root string) []string {
	var images []string
	for _, image := range recordedImages(root) {
		digest := strings.TrimPrefix(string(image.value), "sha256:")
		info, err := os.Stat(filepath.Join(root, containerdBlob, digest))
		if err == nil && info.Size() > 0 {
			images = append(images, image.at[0])
		}
	}
	return images
}

// PodRecord is the record of a running pod on the disk.
type PodRecord struct{ UID, Namespace, Name, IP string }

// AddPod writes the files of kubelet, runtime and network plugin for a pod.
func AddPod(root string, pod PodRecord) error {
	defer Writing(root)()
	text, err := json.Marshal(pod)
	if err != nil {
		return err
	}
	network := platformOn(root).Network()
	files := map[string]string{
		"var/lib/kubelet/pods/" + pod.UID + "/etc-hosts":                                             pod.IP + " " + pod.Name + "\n",
		"var/lib/kubelet/pods/" + pod.UID + "/volumes/kubernetes.io~empty-dir/wrapped_token/ready":   "",
		"var/lib/kubelet/pods/" + pod.UID + "/containers/.ready":                                     "",
		filepath.Join(containerdCRI, "sandboxes", pod.UID, "status"):                                 string(text),
		filepath.Join(containerdCRI, "containers", pod.UID, "status"):                                string(text),
		filepath.Join(containerdTask, pod.UID, "work"):                                               "",
		filepath.Join(snapshotDir("", writable(pod.UID)), "fs/tmp/scratch"):                          randomHex(8),
		"var/log/pods/" + pod.Namespace + "_" + pod.Name + "_" + pod.UID + "/0.log":                  "started\n",
		"var/log/containers/" + pod.Name + "_" + pod.Namespace + "-" + Digest(pod.UID)[:12] + ".log": "started\n",
		"var/lib/cni/results/" + network + "-" + pod.UID + "-eth0":                                   string(text),
		"var/lib/cni/cache/" + pod.UID:                                                               string(text),
	}
	if pod.IP != "" {
		files["var/lib/cni/networks/"+network+"/"+pod.IP] = pod.UID + "\n"
	}
	for path, text := range files {
		if err := WriteFile(filepath.Join(root, path), []byte(text), 0o640); err != nil {
			return err
		}
	}
	return errors.Join(addSnapshot(root, writable(pod.UID), snapshotActive), RecordContainer(root, pod.UID, writable(pod.UID), randomText(24)))
}

// HasPod reports whether the container runtime has a record of the pod.
func HasPod(root, uid string) bool {
	return exists(filepath.Join(root, containerdCRI, "sandboxes", uid))
}

// Pods lists the records of the container runtime.
func Pods(root string) []PodRecord {
	paths, err := filepath.Glob(filepath.Join(root, containerdCRI, "sandboxes", "*", "status"))
	if err != nil {
		return nil
	}
	var pods []PodRecord
	for _, path := range paths {
		var pod PodRecord
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &pod) == nil && pod.UID != "" {
			pods = append(pods, pod)
		}
	}
	return pods
}

// RemovePod removes the files of AddPod. Logs stay, as on a real node.
func RemovePod(root string, pod PodRecord) error {
	defer Writing(root)()
	network := platformOn(root).Network()
	paths := []string{
		"var/lib/kubelet/pods/" + pod.UID,
		filepath.Join(containerdCRI, "sandboxes", pod.UID),
		filepath.Join(containerdCRI, "containers", pod.UID),
		filepath.Join(containerdTask, pod.UID),
		"var/lib/cni/results/" + network + "-" + pod.UID + "-eth0",
		"var/lib/cni/cache/" + pod.UID,
	}
	if pod.IP != "" {
		paths = append(paths, "var/lib/cni/networks/"+network+"/"+pod.IP)
	}
	errs := []error{removeSnapshot(root, writable(pod.UID)), forgetContainer(root, pod.UID)}
	for _, path := range paths {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// CollectGarbage deletes writable layers of unknown pods, as the container runtime does at its start.
func CollectGarbage(root string) error {
	uids, err := writablePods(root)
	if err != nil {
		return err
	}
	for _, uid := range uids {
		if HasPod(root, uid) {
			continue
		}
		if err := errors.Join(removeSnapshot(root, writable(uid)), forgetContainer(root, uid)); err != nil {
			return err
		}
	}
	return nil
}
