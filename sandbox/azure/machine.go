package azure

import (
	"encoding/base64"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// spec is what the fleet is told of an instance; false if it is gone.
func (s machines) spec(id string) (fleet.Spec, bool) {
	var spec fleet.Spec
	known := false
	s.store.Read(func(st *state) {
		i := st.Instances[fold(id)]
		set := st.setOf(i)
		if set == nil {
			return
		}
		known = true
		spec = specOf(set, i)
	})
	return spec, known
}

func specOf(set *scaleSet, i *instance) fleet.Spec {
	profile := set.Profiles[i.Model]
	data, err := base64.StdEncoding.DecodeString(text(profile, "osProfile", "customData"))
	if err != nil { // checked when it was written
		data = nil
	}
	spec := fleet.Spec{
		ID: i.ID, Pool: poolOf(set), ComputerName: fold(computerName(profile, i.Number)), ProviderID: "azure://" + i.ID, VMID: i.VMID,
		Disk: diskOf(i.Disk), CustomData: data, Image: contentOf(i), Zone: i.Zone, Light: set.Light,
	}
	for _, e := range extensionsOf(profile) {
		spec.Extensions = append(spec.Extensions, fleet.Extension{
			Name: text(e, "name"), Publisher: text(e, "properties", "publisher"), Type: text(e, "properties", "type"),
			Settings: copyObject(child(e, "properties", "settings")), ProtectedSettings: copyObject(child(e, "properties", "protectedSettings")),
		})
	}
	return spec
}

// PoolTag is the tag of a VM that stands by itself with the name of the pool that it is of.
const PoolTag = "sandbox-pool"

// poolOf is the scale set's name, or what the tag says.
func poolOf(set *scaleSet) string {
	if !set.id().is("virtualMachines") {
		return set.id().name()
	}
	tag, _ := tagsOf(set.Body)[PoolTag].(string)
	return tag
}

// specs lists every machine that the fleet was told to launch, as it would be told today.
func (s machines) specs() []fleet.Spec {
	var out []fleet.Spec
	s.store.Read(func(st *state) {
		for _, i := range st.Instances {
			if set := st.setOf(i); set != nil && i.Launched {
				out = append(out, specOf(set, i))
			}
		}
	})
	return out
}
