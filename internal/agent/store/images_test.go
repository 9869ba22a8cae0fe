package store

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/rules"
)

func TestImages(t *testing.T) {
	const one, two, three = "sha256:1111", "sha256:2222", "sha256:3333"
	dir := t.TempDir()
	put(t, dir, metaDB, map[string][]byte{
		"v1|version": varint(3),
		"v1|k8s.io|images|registry.k8s.io/pause:3.9|target|digest":              []byte(one),
		"v1|k8s.io|images|registry.k8s.io/pause@sha256:1111|target|digest":      []byte(one),
		"v1|k8s.io|images|sha256:aaaa|target|digest":                            []byte(one),
		"v1|k8s.io|images|registry.k8s.io/proxy@sha256:2222|target|digest":      []byte(two),
		"v1|moby|images|docker.io/library/busybox:1|target|digest":              []byte(three),
		"v1|moby|images|" + "a/" + string(make([]byte, 600)) + "|target|digest": []byte(three),
		"v1|moby|images|without a target|x|digest":                              []byte(three),
	})
	writeFile(t, dir, "var/lib/docker/image/overlay2/repositories.json", []byte(`{"Repositories":{"busybox":{"busybox:1":"sha256:4444","busybox@sha256:9999":"sha256:4444"}}}`))
	writeFile(t, dir, "var/lib/docker/image/overlay2/layerdb/x", nil)
	writeFile(t, dir, "var/lib/containers/storage/overlay-layers/layers.json", []byte(`[]`))
	writeFile(t, dir, "var/lib/containers/storage/overlay-images/images.json", []byte(`[{"digest":"sha256:5555","names":["quay.io/crio/pause:1"]},{"digest":"sha256:6666"}]`))
	for _, test := range []struct {
		kind  rules.Store
		index string
		want  []Image
	}{
		{rules.Containerd, metaDB, []Image{{"registry.k8s.io/pause:3.9", one}, {"registry.k8s.io/proxy", two}, {"docker.io/library/busybox:1", three}}},
		{rules.Docker, "var/lib/docker/image/overlay2/layerdb", []Image{{"busybox:1", "sha256:4444"}}},
		{rules.Storage, "var/lib/containers/storage/overlay-layers/layers.json", []Image{{"quay.io/crio/pause:1", "sha256:5555"}, {"", "sha256:6666"}}},
		{rules.Snapshots, overlay + "/metadata.db", nil},
	} {
		got, err := At(open(t, dir), test.kind, test.index, nil).Images()
		if err != nil {
			t.Errorf("%s: %v", test.kind, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", test.kind, diff)
		}
	}
}

// TestImagesOfDamagedStores are an error, and not an empty list.
func TestImagesOfDamagedStores(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{metaDB, "var/lib/docker/image/overlay2/repositories.json", "var/lib/containers/storage/overlay-images/images.json"} {
		writeFile(t, dir, name, []byte("x"))
	}
	for kind, index := range map[rules.Store]string{
		rules.Containerd: metaDB, rules.Docker: "var/lib/docker/image/overlay2/layerdb", rules.Storage: "var/lib/containers/storage/overlay-layers/layers.json",
	} {
		if images, err := At(open(t, dir), kind, index, nil).Images(); err == nil || len(images) > 0 {
			t.Errorf("%s: %v, error %v", kind, images, err)
		}
	}
	if images, err := At(open(t, t.TempDir()), rules.Docker, "image/overlay2/layerdb", nil).Images(); err != nil || len(images) > 0 {
		t.Errorf("a store without names: %v, %v", images, err)
	}
}

// TestManyImages: the list has a limit.
func TestManyImages(t *testing.T) {
	names := make([]string, 2*maxImages)
	for i := range names {
		names[i] = "a:1"
	}
	if got := asImages("sha256:1", names); len(got) != len(names) {
		t.Errorf("%d names", len(got))
	}
	if got := asImages("sha256:1", []string{"sha256:2"}); !slices.Equal(got, []Image{{Digest: "sha256:1"}}) {
		t.Errorf("an image with its ID alone: %v", got)
	}
}
