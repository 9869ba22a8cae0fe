package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// TestPlaces: a store is found by each setting that moves it, and only if it exists.
func TestPlaces(t *testing.T) {
	const unit, db, layers = "usr/lib/systemd/system/", "data/c/io.containerd.metadata.v1.bolt/meta.db", "data/s/overlay-layers/layers.json"
	for what, test := range map[string]struct {
		files map[string]string
		kind  rules.Store
		index string
	}{
		"containerd": {map[string]string{"etc/containerd/config.toml": "version = 2\nroot = \"/data/c\"\n", db: ""}, rules.Containerd, db},
		"containerd's flag": {map[string]string{unit + "containerd.service": "[Service]\nExecStart=/usr/bin/containerd --root /data/c\n",
			db: ""}, rules.Containerd, db},
		"another configuration": {map[string]string{"etc/systemd/system/containerd.service.d/1.conf": "[Service]\nExecStart=/usr/bin/containerd --config=/opt/c.toml\n", "opt/c.toml": "root = '/data/c'\n", db: ""}, rules.Containerd, db},
		"an import": {map[string]string{"etc/containerd/config.toml": "imports = [\"/opt/c/*.toml\"]\n",
			"opt/c/a.toml": "root = '/data/c'\n", db: ""}, rules.Containerd, db},
		"the state": {map[string]string{"etc/containerd/config.toml": "state = \"/data/state\"\n",
			"data/state/io.containerd.runtime.v2.task/k8s.io": ""}, "", "data/state/io.containerd.runtime.v2.task/k8s.io"},
		"a plugin's root": {map[string]string{"etc/containerd/config.toml": "[plugins.x]\nroot = \"/data/c\"\n", db: ""}, "", ""},
		"a comment":       {map[string]string{unit + "containerd.service": "#ExecStart=/usr/bin/containerd --root /data/c\n", db: ""}, "", ""},
		"no store":        {map[string]string{"etc/containerd/config.toml": "root = \"/data/c\"\n"}, "", ""},
		"Docker's flag": {map[string]string{"etc/default/docker": "DOCKER_OPTS=\"--data-root=/data/d\"\n",
			"data/d/image/overlay2/layerdb": ""}, rules.Docker, "data/d/image/overlay2/layerdb"},
		"Docker's old flag": {map[string]string{"etc/sysconfig/docker": "OPTIONS='-g /data/d'\n", "data/d/image/overlay2/layerdb": ""},
			rules.Docker, "data/d/image/overlay2/layerdb"},
		"CRI-O":        {map[string]string{"etc/crio/crio.conf.d/1.conf": "[crio]\nroot = \"/data/s\"\n", layers: ""}, rules.Storage, layers},
		"CRI-O's flag": {map[string]string{"etc/systemd/system/crio.service.d/1.conf": "[Service]\nExecStart=/usr/bin/crio --root /data/s\n", layers: ""}, rules.Storage, layers},
		"k3s":          {map[string]string{"etc/systemd/system/k3s-agent.service": "[Service]\nExecStart=/usr/local/bin/k3s \\\n    agent \\\n\t'--data-dir=/data/k' \\\n", "data/k/agent/containerd/io.containerd.metadata.v1.bolt/meta.db": ""}, rules.Containerd, "data/k/agent/containerd/io.containerd.metadata.v1.bolt/meta.db"},
		"RKE2": {map[string]string{"etc/rancher/rke2/config.yaml": "data-dir: /data/k\n",
			"data/k/agent/containerd/io.containerd.metadata.v1.bolt/meta.db": ""}, rules.Containerd, "data/k/agent/containerd/io.containerd.metadata.v1.bolt/meta.db"},
		"SOCI": {map[string]string{unit + "soci-snapshotter.service": "[Service]\nExecStart=/usr/local/bin/soci-snapshotter-grpc --address fd:// --root /data/soci\n",
			"data/soci/snapshotter/metadata.db": ""}, rules.Snapshots, "data/soci/snapshotter/metadata.db"},
		"RKE2's variable": {map[string]string{"etc/default/rke2-agent": "RKE2_DATA_DIR=/data/k\n",
			"data/k/agent/containerd/io.containerd.metadata.v1.bolt/meta.db": ""}, rules.Containerd, "data/k/agent/containerd/io.containerd.metadata.v1.bolt/meta.db"},
		"containers of nerdctl": {map[string]string{"etc/nerdctl/nerdctl.toml": "data_root = \"/data/n\"\n",
			"data/n/1935db59/containers/k8s.io": ""}, "", "data/n/1935db59/containers/k8s.io"},
		"a flag of another meaning": {map[string]string{unit +
			"docker.service": "[Service]\nExecStart=/usr/bin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock\n", "run/containerd/image/x/layerdb": ""}, "", ""},
		"a unit of another service":  {map[string]string{unit + "acme.service": "[Service]\nExecStart=/usr/bin/acme --root /data/c\n", db: ""}, "", ""},
		"the default, named as such": {map[string]string{"etc/containerd/config.toml": "root = \"/var/lib/containerd\"\nstate = \"/run/containerd\"\n"}, "", ""},
	} {
		dir := t.TempDir()
		for name, content := range test.files {
			at := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		opened, err := tree.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Places(opened)
		_ = opened.Close()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		var want []Place
		if test.index != "" {
			want = []Place{{Kind: test.kind, Index: test.index}}
		}
		for i := range got {
			got[i].By = ""
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// TestKindsOfStores: each kind that a rule may name has code.
func TestKindsOfStores(t *testing.T) {
	for _, kind := range rules.Stores {
		if kinds[kind] == nil {
			t.Errorf("rules may name the store %s, and there is no code for it", kind)
		}
	}
	if len(kinds) != len(rules.Stores) {
		t.Errorf("there is code for %d kinds of stores, and rules know %d", len(kinds), len(rules.Stores))
	}
}
