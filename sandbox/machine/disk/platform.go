package disk

import "strings"

// Platform is the cloud that a disk's image was published for. What differs is the agent that the cloud has on it, where
// cloud-init finds its instance, and names.
type Platform string

// The platforms.
const (
	OnAzure Platform = "Azure"
	OnEC2   Platform = "Ec2"
)

// imagesOfEC2 begin so.
const imagesOfEC2 = "ec2:"

// PlatformOf an image that a publisher has: "ec2:canonical:ubuntu-jammy-22.04-amd64:20241002" is of EC2's, any other of Azure's.
func PlatformOf(image string) Platform {
	if strings.HasPrefix(image, imagesOfEC2) {
		return OnEC2
	}
	return OnAzure
}

// platformOn a disk.
func platformOn(root string) Platform {
	if Exists(root, "etc/cloud/cloud.cfg.d/90-ec2.cfg") {
		return OnEC2
	}
	return OnAzure
}

// on completes facts with the platform of a disk that is there.
func (f Facts) on(root string) Facts {
	f.Platform = platformOn(root)
	return f.Complete()
}

// User that the image's cloud-init makes.
func (p Platform) User() string {
	if p == OnEC2 {
		return "ubuntu"
	}
	return "azureuser"
}

// Kernel is what the platform's kernels and their package end in.
func (p Platform) Kernel() string {
	if p == OnEC2 {
		return "aws"
	}
	return "azure"
}

// KernelPackage is the one whose update brings a kernel.
func KernelPackage(root string) string { return "linux-image-" + platformOn(root).Kernel() }

// Network is what the nodes' network is called in their network plugin's files.
func (p Platform) Network() string {
	if p == OnEC2 {
		return "cluster"
	}
	return "azure"
}

// Seed is where cloud-init has found its instance.
func (p Platform) Seed() string {
	if p == OnEC2 {
		return "DataSourceEc2Local"
	}
	return "DataSourceAzure [seed=/dev/sr0]"
}
