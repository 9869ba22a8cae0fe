package azure

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"net/http"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// Names in the group of a run.
const (
	poolName  = "pool"
	trialName = "trial"
	// healthType is an extension that only the model has, for a while.
	healthType = "ApplicationHealthLinux"
)

// tagged is the body of a new resource.
func (s *session) tagged(body object) object {
	out := object{"location": s.region, "tags": s.Tags()}
	maps.Copy(out, body)
	return out
}

// Base implements realcloud.Session.
func (s *session) Base(ctx context.Context) error {
	group, err := s.find(ctx, s.group())
	if err != nil {
		return err
	}
	if s.region, err = regionOf(group, s.Region); err != nil {
		return err
	}
	if group == nil {
		fmt.Fprintf(s.Out, "make the resource group\n")
		if _, err := s.call(ctx, http.MethodPut, s.group(), "", s.tagged(nil)); err != nil {
			return err
		}
		if err := s.Appears(ctx, "resource group", func() (bool, error) {
			found, err := s.find(ctx, s.group())
			return found != nil, err
		}); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		what, path string
		body       func() object
	}{
		{"make the network", s.network(), s.networkBody},
		{"make the gallery", s.gallery(), func() object { return s.tagged(object{"properties": object{}}) }},
		{"make the scale set", s.set(poolName), s.poolBody},
	} {
		fmt.Fprintf(s.Out, "%s\n", step.what)
		if err := s.ensure(ctx, step.what, step.path, step.body); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// networkBody is a network that nothing can reach, and from which nothing reaches the Internet.
func (s *session) networkBody() object {
	return s.tagged(object{"properties": object{"addressSpace": object{"addressPrefixes": []string{"10.213.0.0/24"}},
		"subnets": []object{{"name": "machines", "properties": object{"addressPrefix": "10.213.0.0/25", "defaultOutboundAccess": false}}}}})
}

// loginKey is a public key whose private half no one has: Azure asks for a key, and no one logs in.
func loginKey() string {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil { // no randomness
		panic(err)
	}
	const kind = "ssh-ed25519"
	var blob []byte
	for _, part := range [][]byte{[]byte(kind), public} {
		blob = append(binary.BigEndian.AppendUint32(blob, uint32(len(part))), part...)
	}
	return kind + " " + base64.StdEncoding.EncodeToString(blob) + " nobody"
}

// setBody is a scale set of Trusted Launch with a console.
func (s *session) setBody(name string, machines int, image object, disk object, data string) object {
	os := object{"osType": "Linux", "createOption": "FromImage", "diskSizeGB": maxSize}
	maps.Copy(os, disk)
	profile := object{
		"osProfile": object{"computerNamePrefix": "kv-" + name, "adminUsername": "nobodyuser", "customData": base64.StdEncoding.EncodeToString([]byte(data)),
			"linuxConfiguration": object{"disablePasswordAuthentication": true,
				"ssh": object{"publicKeys": []object{{"path": "/home/nobodyuser/.ssh/authorized_keys", "keyData": loginKey()}}}}},
		"storageProfile":     object{"imageReference": image, "osDisk": os},
		"securityProfile":    object{"securityType": "TrustedLaunch", "uefiSettings": object{"secureBootEnabled": true, "vTpmEnabled": true}},
		"diagnosticsProfile": object{"bootDiagnostics": object{"enabled": true}},
		"networkProfile": object{"networkInterfaceConfigurations": []object{{"name": "nic", "properties": object{"primary": true,
			"ipConfigurations": []object{{"name": "ip", "properties": object{"subnet": object{"id": s.network() + "/subnets/machines"}}}}}}}},
	}
	return s.tagged(object{"sku": object{"name": smallSize, "tier": "Standard", "capacity": machines},
		"properties": object{"orchestrationMode": "Uniform", "overprovision": false, "singlePlacementGroup": true,
			"upgradePolicy": object{"mode": "Manual"}, "virtualMachineProfile": profile}})
}

// poolBody is the scale set of two machines, whose disks the host caches as Azure does by default.
func (s *session) poolBody() object {
	return s.setBody(poolName, 2, object{"publisher": "Canonical", "offer": "0001-com-ubuntu-minimal-jammy", "sku": "minimal-22_04-lts-gen2", "version": "latest"},
		object{"caching": "ReadWrite", "managedDisk": object{"storageAccountType": "StandardSSD_LRS"}}, guestData)
}

// trialBody is a scale set from the run's version, beside the pool, whose disk has no host cache.
func (s *session) trialBody() object {
	return s.setBody(trialName, 1, object{"id": s.version("image")},
		object{"caching": "None", "managedDisk": object{"storageAccountType": "Premium_LRS"}}, "")
}

// definition of an image with a security type, and version of it.
func (s *session) definition(name string) string { return s.gallery() + "/images/" + name }
func (s *session) version(of string) string      { return s.definition(of) + "/versions/1.0.0" }

func (s *session) definitionBody(name, security string) object {
	return s.tagged(object{"properties": object{"osType": "Linux", "osState": "Generalized", "hyperVGeneration": "V2", "architecture": "x64",
		"identifier": object{"publisher": "kamino", "offer": "verify", "sku": name},
		"features":   []object{{"name": "SecurityType", "value": security}}}})
}

func (s *session) versionBody(snapshot string) object {
	return s.tagged(object{"properties": object{
		"storageProfile": object{"osDiskImage": object{"source": object{"id": snapshot}}},
		"publishingProfile": object{"replicaCount": 1, "excludeFromLatest": true, "storageAccountType": "Standard_LRS",
			"targetRegions": []object{{"name": s.region}}}}})
}

func (s *session) snapshot(name string) string { return s.compute("snapshots/" + name) }
func (s *session) disk(name string) string     { return s.compute("disks/" + name) }

// copyBody is a snapshot of a disk, or a disk of a snapshot, that no one can export.
func (s *session) copyBody(source string, more object) object {
	properties := object{"creationData": object{"createOption": "Copy", "sourceResourceId": source}, "networkAccessPolicy": "DenyAll",
		"publicNetworkAccess": "Disabled"}
	maps.Copy(properties, more)
	return s.tagged(object{"sku": object{"name": "Standard_LRS"}, "properties": properties})
}

// machine is an instance of a scale set.
type machine struct {
	object
	number string
}

// machines of a scale set, the oldest first.
func (s *session) machines(ctx context.Context, set string) (all []machine, err error) {
	out, err := s.get(ctx, s.set(set)+"/virtualMachines?$expand=instanceView")
	if err != nil {
		return nil, err
	}
	for _, vm := range list(out, "value") {
		all = append(all, machine{vm, text(vm, "instanceId")})
	}
	return all, nil
}

// mustMachines are the machines, of which there must be some.
func (s *session) mustMachines(ctx context.Context, set string, n int) ([]machine, error) {
	all, err := s.machines(ctx, set)
	if err == nil && len(all) < n {
		err = fmt.Errorf("the scale set %s has %d machines", set, len(all))
	}
	return all, err
}

// osDisk is the ID of a machine's disk.
func (m machine) osDisk() string {
	return text(m.object, "properties", "storageProfile", "osDisk", "managedDisk", "id")
}

// power is the state in a view, such as "running".
func power(view object) string {
	for _, status := range list(view, "statuses") {
		if code := text(status, "code"); len(code) > 11 && code[:11] == "PowerState/" {
			return code[11:]
		}
	}
	return ""
}

// data are the disks of a machine besides its own, by ID.
func (m machine) data() (all []string) {
	for _, d := range list(m.object, "properties", "storageProfile", "dataDisks") {
		all = append(all, text(d, "managedDisk", "id"))
	}
	return all
}

// attach attaches a disk, and returns the answer before the end of the operation.
func (s *session) attach(ctx context.Context, vm, disk string, lun int) (answer, error) {
	return s.call(ctx, http.MethodPost, vm+"/attachDetachDataDisks", "", object{"dataDisksToAttach": []object{{"diskId": disk, "lun": lun, "caching": "None"}}})
}

func (s *session) detach(ctx context.Context, vm string, disks ...string) error {
	var all []object
	for _, d := range disks {
		all = append(all, object{"diskId": d})
	}
	return s.do(ctx, "detach a disk", http.MethodPost, vm+"/attachDetachDataDisks", object{"dataDisksToDetach": all})
}

// settle brings the machines of the pool to power on, without further disks. An interrupted check may have left anything else.
func (s *session) settle(ctx context.Context) ([]machine, error) {
	all, err := s.mustMachines(ctx, poolName, 2)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if disks := m.data(); len(disks) > 0 {
			if err := s.detach(ctx, s.vm(poolName, m.number), disks...); err != nil {
				return nil, err
			}
		}
		if view, _ := at(m.object, "properties", "instanceView").(object); power(view) != "running" {
			if err := s.do(ctx, "start", http.MethodPost, s.vm(poolName, m.number)+"/start", nil); err != nil {
				return nil, err
			}
		}
	}
	return s.mustMachines(ctx, poolName, 2)
}

// says waits for more lines of a kind on the console of a machine than there were, and returns the last of them.
func (s *session) says(ctx context.Context, vm, what string, before int) (line, error) {
	var found line
	err := s.Until(ctx, fmt.Sprintf("%q on the console", what), realcloud.LookFor, func() (bool, error) {
		all, err := s.readConsole(ctx, vm)
		if isMissing(err) {
			return false, nil
		}
		some := of(all, what)
		if err != nil || len(some) <= before {
			return false, err
		}
		found = some[len(some)-1]
		return true, nil
	})
	return found, err
}

// said is how many lines of a kind the console of a machine has.
func (s *session) said(ctx context.Context, vm, what string) (int, error) {
	all, err := s.readConsole(ctx, vm)
	return len(of(all, what)), err
}
