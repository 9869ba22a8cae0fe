package pool

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// clusterSuffix is in the names of everything that AKS Engine makes for one cluster.
const clusterSuffix = "24816321"

// ScaleSet is the name of the pool's scale set, in the form that AKS Engine gives it. Nodes are named after
// it, with six more characters.
func (s Spec) ScaleSet() string { return "k8s-" + s.Name + "-" + clusterSuffix + "-vmss" }

// Is tells whether a person means this pool: by its own name or its scale set's, in any case.
func (s Spec) Is(name string) bool {
	return strings.EqualFold(name, s.Name) || strings.EqualFold(name, s.ScaleSet())
}

// LightTag marks a scale set whose machines have no files.
const LightTag = "kamino-sandbox-light"

// Names of the extensions that a pool's recipe has: one that bootstraps, one for billing that any tool must
// leave alone.
const (
	BootstrapExtension = "vmssCSE"
	BillingExtension   = "k8s-pool-computeAksLinuxBilling"
)

// object is a JSON object.
type object = map[string]any

// Model is the scale set's resource as one would PUT it, built from a generic image, customData and a
// bootstrap extension.
func (s Spec) Model(location string, customData, adminPassword string) map[string]any {
	model := object{
		"location": location,
		"sku":      object{"name": "Standard_D2s_v5", "tier": "Standard", "capacity": s.Nodes},
		"tags":     s.tags(),
		"identity": object{"type": "SystemAssigned"},
		"properties": object{
			"overprovision":            false,
			"singlePlacementGroup":     false,
			"orchestrationMode":        "Uniform",
			"upgradePolicy":            s.upgradePolicy(),
			"virtualMachineProfile":    s.profile(customData, adminPassword),
			"platformFaultDomainCount": 1,
		},
	}
	if s.Zones {
		model["zones"] = []string{"1", "2", "3"}
	}
	return model
}

func (s Spec) tags() object {
	tags := object{
		"creationSource":     "aksengine-k8s-" + s.Name + "-" + clusterSuffix + "-vmss",
		"orchestrator":       "Kubernetes:1.37.1",
		"poolName":           s.Name,
		"resourceNameSuffix": clusterSuffix,
	}
	if s.Max > 0 {
		tags["min"], tags["max"] = "1", strconv.Itoa(s.Max)
		tags["cluster-autoscaler-enabled"] = "true"
	}
	if s.AKS {
		tags["aks-managed-poolName"] = s.Name
		tags["aks-managed-orchestrator"] = "Kubernetes:1.37.1"
	}
	if s.Light {
		tags[LightTag] = "true"
	}
	return tags
}

func (s Spec) upgradePolicy() object {
	policy := object{"mode": s.UpgradePolicy}
	if s.OSUpgrade {
		policy["automaticOSUpgradePolicy"] = object{"enableAutomaticOSUpgrade": true}
	}
	return policy
}

func (s Spec) profile(customData, adminPassword string) object {
	profile := object{
		"osProfile":        s.osProfile(customData, adminPassword),
		"storageProfile":   object{"imageReference": s.image(), "osDisk": s.disk()},
		"networkProfile":   s.network(),
		"extensionProfile": object{"extensions": s.extensions()},
	}
	if s.Security != "Standard" {
		profile["securityProfile"] = object{
			"securityType": s.Security,
			"uefiSettings": object{"secureBootEnabled": true, "vTpmEnabled": true},
		}
	}
	return profile
}

func (s Spec) osProfile(customData, adminPassword string) object {
	profile := object{
		"computerNamePrefix": s.ScaleSet(),
		"adminUsername":      "azureuser",
		"customData":         base64.StdEncoding.EncodeToString([]byte(customData)),
	}
	if s.Windows {
		// Windows names have fifteen characters at most.
		profile["computerNamePrefix"] = clusterSuffix[:4] + "k8s" + s.Name[:1]
		profile["adminPassword"] = adminPassword
		profile["windowsConfiguration"] = object{"enableAutomaticUpdates": false, "provisionVMAgent": true}
		return profile
	}
	profile["linuxConfiguration"] = object{"disablePasswordAuthentication": true, "provisionVMAgent": true}
	return profile
}

func (s Spec) image() object {
	if s.Windows {
		return object{"publisher": "MicrosoftWindowsServer", "offer": "WindowsServer", "sku": "2022-datacenter-core-g2", "version": "latest"}
	}
	sku := "22_04-lts"
	if s.Generation == "V2" {
		sku += "-gen2"
	}
	return object{"publisher": "Canonical", "offer": "0001-com-ubuntu-server-jammy", "sku": sku, "version": "latest"}
}

func (s Spec) disk() object {
	disk := object{
		"createOption": "FromImage",
		"caching":      "ReadWrite",
		"diskSizeGB":   30,
		"osType":       "Linux",
		"managedDisk":  object{"storageAccountType": "Premium_LRS"},
	}
	if s.Windows {
		disk["osType"], disk["diskSizeGB"] = "Windows", 128
	}
	if s.Ephemeral {
		disk["caching"] = "ReadOnly"
		disk["diffDiskSettings"] = object{"option": "Local"}
		disk["managedDisk"] = object{"storageAccountType": "Standard_LRS"}
	}
	return disk
}

func (s Spec) network() object {
	return object{"networkInterfaceConfigurations": []object{{
		"name": s.ScaleSet(),
		"properties": object{
			"primary": true, "enableAcceleratedNetworking": true, "enableIPForwarding": true,
			"ipConfigurations": []object{{"name": "ipconfig1", "properties": object{"primary": true}}},
		},
	}}}
}

func (s Spec) extensions() []object {
	bootstrap := object{
		"publisher": "Microsoft.Azure.Extensions", "type": "CustomScript", "typeHandlerVersion": "2.0",
		"autoUpgradeMinorVersion": true,
		"settings":                object{},
		"protectedSettings":       object{"commandToExecute": "/usr/bin/nohup /bin/bash -c \"/bin/bash /opt/azure/containers/provision.sh >> /var/log/azure/cluster-provision.log 2>&1\""},
	}
	billing := object{
		"publisher": "Microsoft.AKS", "type": "Compute.AKS-Engine.Linux.Billing", "typeHandlerVersion": "1.0",
		"autoUpgradeMinorVersion": true, "settings": object{},
	}
	if s.Windows {
		bootstrap["publisher"], bootstrap["type"], bootstrap["typeHandlerVersion"] = "Microsoft.Compute", "CustomScriptExtension", "1.8"
		billing["type"] = "Compute.AKS-Engine.Windows.Billing"
	}
	return []object{
		{"name": BootstrapExtension, "properties": bootstrap},
		{"name": BillingExtension, "properties": billing},
	}
}
