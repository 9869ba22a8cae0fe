package azure

import (
	"cmp"
	"encoding/base64"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// spec is the fleet's spec of an instance; false if the instance is gone.
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
		spec.Waited = s.config.Latencies.Create
	})
	return spec, known
}

func specOf(set *scaleSet, i *instance) fleet.Spec {
	profile := set.Profiles[i.Model]
	data, err := base64.StdEncoding.DecodeString(text(profile, "osProfile", "customData"))
	if err != nil { // checked at the write
		data = nil
	}
	spec := fleet.Spec{
		ID: i.ID, Pool: poolOf(set), ComputerName: fold(computerName(profile, i.Number)), ProviderID: "azure://" + i.ID, VMID: i.VMID,
		Disk: diskOf(i.Disk), CustomData: data, Image: contentOf(i), Zone: i.Zone, Light: set.Light,
		Type: cmp.Or(text(set.Body, "sku", "name"), text(set.Body, "properties", "hardwareProfile", "vmSize")),
	}
	for _, e := range extensionsOf(profile) {
		spec.Extensions = append(spec.Extensions, fleet.Extension{
			Name: text(e, "name"), Publisher: text(e, "properties", "publisher"), Type: text(e, "properties", "type"),
			Settings: copyObject(child(e, "properties", "settings")), ProtectedSettings: copyObject(child(e, "properties", "protectedSettings")),
		})
	}
	return spec
}

// PoolTag is the tag of a standalone VM with the name of its pool.
const PoolTag = "sandbox-pool"

// poolOf is the name of the scale set, or the value of the tag.
func poolOf(set *scaleSet) string {
	if !set.id().is("virtualMachines") {
		return set.id().name()
	}
	tag, _ := tagsOf(set.Body)[PoolTag].(string)
	return tag
}

// specs lists the current specs of all launched machines.
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
