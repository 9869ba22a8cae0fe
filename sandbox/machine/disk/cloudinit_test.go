package disk

import (
	"path/filepath"
	"testing"
)

func TestCloudInitModules(t *testing.T) {
	orders, err := ReadOrders(CustomData(Static))
	if err != nil || !orders.Bootstrap || len(orders.Files) == 0 {
		t.Fatalf("the recipe orders %+v (%v)", orders, err)
	}
	for _, c := range []struct {
		what              string
		settings          map[string]string
		writes, bootstrap bool
	}{
		{"no lists", nil, true, true},
		{"none of its modules", map[string]string{"99.cfg": "cloud_init_modules: [ssh]\ncloud_config_modules: []\ncloud_final_modules: [final-message]\n"}, false, false},
		{"files alone", map[string]string{"99.cfg": "cloud_init_modules: [[write-files, always]]\ncloud_final_modules: []\n"}, true, false},
		{"commands without who runs them", map[string]string{"99.cfg": "cloud_config_modules: [runcmd]\ncloud_final_modules: [final-message]\n"}, true, false},
		{"the later file counts", map[string]string{"10.cfg": "cloud_config_modules: []\n", "99.cfg": "cloud_config_modules: [runcmd]\n"}, true, true},
	} {
		root := t.TempDir()
		for name, text := range c.settings {
			if err := WriteFile(filepath.Join(root, "etc/cloud/cloud.cfg.d", name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		modules, err := CloudInitModules(root)
		if err != nil {
			t.Fatal(err)
		}
		if got := orders.Within(modules); (len(got.Files) > 0) != c.writes || got.Bootstrap != c.bootstrap {
			t.Errorf("%s: %d files, bootstrap %v", c.what, len(got.Files), got.Bootstrap)
		}
	}
}
