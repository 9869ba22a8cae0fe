package cloud

import "testing"

func TestTerraformTag(t *testing.T) {
	for name, c := range map[string]struct {
		tags map[string]string
		want string
	}{
		"none":   {nil, ""},
		"others": {map[string]string{"team": "platform", "terra": "firma"}, ""},
		"value":  {map[string]string{"managed-by": "Terraform", "team": "a"}, "managed-by=Terraform"},
		"key":    {map[string]string{"terraform:module": "pools"}, "terraform:module=pools"},
		"tofu":   {map[string]string{"ManagedBy": "OpenTofu"}, "ManagedBy=OpenTofu"},
		"two":    {map[string]string{"z": "terraform", "a": "terraform"}, "a=terraform"},
	} {
		if got := TerraformTag(c.tags); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
