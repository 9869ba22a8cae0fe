package azure

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// pools creates and changes scale sets for the sandbox.
type pools struct{ scaleSets }

// PoolSpec describes a node pool as AKS Engine and its like leave it in a resource group. The zero value of
// everything but Name is a pool of no nodes, Manual, V1, static, x64.
type PoolSpec struct {
	// Name of the scale set, such as "k8s-pool1-12345678-vmss"; also the prefix of host names.
	Name string
	// Nodes at the start. MinNodes and MaxNodes go into the tags for the cluster autoscaler, unless 0.
	Nodes, MinNodes, MaxNodes int
	// Size of the machines; empty means Standard_D2s_v5.
	Size string
	// Generation of Hyper-V, "V1" (default) or "V2".
	Generation string
	// Profile is how nodes join: "static" (default) with customData and the extension vmssCSE, once; "bootstrap" with
	// customData at each boot.
	Profile string
	// UpgradePolicy is "Manual" (default), "Automatic" or "Rolling".
	UpgradePolicy string
	// AutoOSUpgrade lets Azure replace OS images automatically.
	AutoOSUpgrade bool
	// Ephemeral keeps the OS disk on the host.
	Ephemeral bool
	// SecurityType is empty, "TrustedLaunch" or "ConfidentialVM"; both need V2.
	SecurityType string
	// AKSManaged adds the marks of a scale set of AKS.
	AKSManaged bool
	Windows    bool
	Zones      []string
	Tags       map[string]string
	// CustomData for cloud-init, and the command line of vmssCSE; empty means a simple command.
	CustomData []byte
	Command    string
	// Image as "publisher:offer:sku:version"; empty means a generic Ubuntu of the generation.
	Image string
	// NoConsole disables boot diagnostics.
	NoConsole bool
	// Light nodes have no files.
	Light bool
}

func (p PoolSpec) withDefaults() PoolSpec {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&p.Size, "Standard_D2s_v5"}, {&p.Generation, "V1"}, {&p.Profile, "static"}, {&p.UpgradePolicy, "Manual"},
		{&p.Command, "/bin/bash /opt/azure/containers/provision.sh"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if p.Image == "" {
		sku := "22_04-lts"
		if p.Generation == "V2" {
			sku += "-gen2"
		}
		p.Image = "Canonical:0001-com-ubuntu-server-jammy:" + sku + ":22.04.202611010"
	}
	if p.CustomData == nil {
		p.CustomData = []byte(
			"#cloud-config\nwrite_files:\n- path: /opt/azure/containers/provision.sh\n  permissions: \"0744\"\n  content: |\n    #!/bin/bash\n")
	}
	return p
}

// make creates a pool in the configured resource group and waits until its machines are launched, without Azure's
// latencies. An existing pool stays unchanged.
func (s pools) make(ctx context.Context, spec PoolSpec) error {
	spec = spec.withDefaults()
	body, err := spec.model(s.config)
	if err != nil {
		return err
	}
	id := resourceID{subscription: s.config.SubscriptionID, group: s.config.ResourceGroup, namespace: computeNamespace}.
		child("virtualMachineScaleSets", spec.Name)
	c, exists := &call{}, false
	err = s.store.Write(func(st *state) error {
		if exists = st.ScaleSets[id.key()] != nil; exists {
			return nil
		}
		if err := s.create(st, c, id, body, &reply{}); err != nil {
			return err
		}
		st.ScaleSets[id.key()].Light = spec.Light
		c.started.Latency, c.started.Flags = 0, map[string]bool{"instant": true}
		return nil
	})
	if err != nil || exists {
		return err
	}
	return s.finish(ctx, *c.started)
}

// finish runs an operation and waits for its end.
func (s pools) finish(ctx context.Context, op operation) error {
	select {
	case <-s.start(op):
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", op.Target, ctx.Err())
	}
	var err error
	s.store.Read(func(st *state) {
		switch ended := st.Operations[op.ID]; {
		case ended == nil:
		case ended.Problem != nil:
			err = fmt.Errorf("%s: %w", op.Target, ended.Problem)
		case ended.Status == statusInProgress:
			err = errors.New("the server was closed before the operation was over")
		}
	})
	return err
}

// model is the body of a client's PUT for the scale set.
func (p PoolSpec) model(config Config) (object, error) {
	image := strings.Split(p.Image, ":")
	if len(image) != 4 {
		return nil, fmt.Errorf("image %q of pool %s must be publisher:offer:sku:version", p.Image, p.Name)
	}
	tags := object{"orchestrator": "Kubernetes", "poolName": strings.TrimSuffix(p.Name, "-vmss"), "resourceNameSuffix": "12345678"}
	if p.MinNodes > 0 || p.MaxNodes > 0 {
		tags["cluster-autoscaler-enabled"], tags["cluster-autoscaler-name"] = "true", config.ResourceGroup
		tags["min"], tags["max"] = strconv.Itoa(p.MinNodes), strconv.Itoa(p.MaxNodes)
	}
	if p.AKSManaged {
		tags["aks-managed-poolName"], tags["aks-managed-orchestrator"] = p.Name, "Kubernetes"
	}
	for k, v := range p.Tags {
		tags[k] = v
	}
	upgrade := object{"mode": p.UpgradePolicy}
	if p.AutoOSUpgrade {
		upgrade["automaticOSUpgradePolicy"] = object{"enableAutomaticOSUpgrade": true, "disableAutomaticRollback": false}
	}
	body := object{
		"location": config.Location, "tags": tags, "sku": object{"name": p.Size, "tier": "Standard", "capacity": p.Nodes},
		"properties": object{
			"orchestrationMode": "Uniform", "overprovision": false, "singlePlacementGroup": true, "upgradePolicy": upgrade,
			"virtualMachineProfile": p.machine(config, image),
		},
	}
	if len(p.Zones) > 0 {
		zones := []any{}
		for _, z := range p.Zones {
			zones = append(zones, z)
		}
		body["zones"] = zones
	}
	return body, nil
}

// machine is the virtual machine profile.
func (p PoolSpec) machine(config Config, image []string) object {
	disk := object{"osType": "Linux", "createOption": "FromImage", "caching": "ReadWrite", "diskSizeGB": 128,
		"managedDisk": object{"storageAccountType": "Premium_LRS"}}
	os := object{"computerNamePrefix": p.Name, "adminUsername": "azureuser", "secrets": []any{},
		"customData": base64.StdEncoding.EncodeToString(p.CustomData)}
	if p.Windows {
		disk["osType"] = "Windows"
		os["windowsConfiguration"] = object{"provisionVMAgent": true}
	} else {
		os["linuxConfiguration"] = object{"disablePasswordAuthentication": true, "provisionVMAgent": true,
			"ssh": object{"publicKeys": []any{object{"path": "/home/azureuser/.ssh/authorized_keys", "keyData": "ssh-rsa AAAA"}}}}
	}
	if p.Ephemeral {
		disk["diffDiskSettings"] = object{"option": "Local", "placement": "CacheDisk"}
		disk["caching"] = "ReadOnly"
	}
	subnet := fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Network/virtualNetworks/vnet/subnets/nodes",
		config.SubscriptionID, config.ResourceGroup)
	profile := object{
		"osProfile": os,
		"storageProfile": object{"osDisk": disk, "imageReference": object{
			"publisher": image[0], "offer": image[1], "sku": image[2], "version": image[3]}},
		"networkProfile": object{"networkInterfaceConfigurations": []any{object{"name": "nic", "properties": object{
			"primary": true, "enableIPForwarding": true, "ipConfigurations": []any{object{"name": "ip", "properties": object{
				"primary": true, "subnet": object{"id": subnet}}}}}}}},
		"extensionProfile":   object{"extensions": p.extensions()},
		"diagnosticsProfile": object{"bootDiagnostics": object{"enabled": !p.NoConsole}},
	}
	if p.SecurityType != "" {
		profile["securityProfile"] = object{"securityType": p.SecurityType, "uefiSettings": object{"secureBootEnabled": true, "vTpmEnabled": true}}
	}
	return profile
}

// extensions of the pool: the bootstrap extension for the profile static, and the billing extension.
func (p PoolSpec) extensions() []any {
	billing := object{"name": p.Name + "-AKSLinuxBilling", "properties": object{"publisher": "Microsoft.AKS",
		"type": "Compute.AKS-Engine.Linux.Billing", "typeHandlerVersion": "1.0", "autoUpgradeMinorVersion": true, "settings": object{}}}
	if p.Profile != "static" {
		return []any{billing}
	}
	return []any{object{"name": "vmssCSE", "properties": object{"publisher": "Microsoft.Azure.Extensions", "type": "CustomScript",
		"typeHandlerVersion": "2.0", "autoUpgradeMinorVersion": true, "settings": object{},
		"protectedSettings": object{"commandToExecute": p.Command}}}, billing}
}

// scale sets the capacity of a pool like a client's PATCH, and waits for the end of the operation, with Azure's
// latencies. All new machines are launched then, and possibly not yet Ready.
func (s pools) scale(ctx context.Context, name string, nodes int64) error {
	id := resourceID{subscription: s.config.SubscriptionID, group: s.config.ResourceGroup, namespace: computeNamespace}.
		child("virtualMachineScaleSets", name)
	c := &call{}
	err := s.store.Write(func(st *state) error {
		set := st.ScaleSets[id.key()]
		if set == nil {
			return notFound(id)
		}
		next := copyObject(set.Body)
		put(next, copyObject(set.profile()), "properties", "virtualMachineProfile")
		put(next, nodes, "sku", "capacity")
		return s.write(st, c, set, next, &reply{})
	})
	if err != nil {
		return err
	}
	return s.finish(ctx, *c.started)
}
