package disk

import "strings"

// Platform is the target of a disk's image. Platforms differ in the system, the cloud's agent, cloud-init's data
// source, and names.
type Platform string

// The platforms.
const (
	OnAzure Platform = "Azure"
	OnEC2   Platform = "Ec2"
	// OnEKS is EC2 with EKS's Amazon Linux.
	OnEKS Platform = "EKS"
)

// imagesOfEC2 is the prefix of image IDs on EC2. EKS images have a longer prefix.
const (
	imagesOfEC2 = "ec2:"
	imagesOfEKS = "ec2:amazon:eks-"
)

// PlatformOf an image that a publisher has: "ec2:canonical:ubuntu-jammy-22.04-amd64:20241002" is of EC2's,
// "ec2:amazon:eks-al2023-x86_64-standard:20251120" of EKS's, any other of Azure's.
func PlatformOf(image string) Platform {
	switch {
	case strings.HasPrefix(image, imagesOfEKS):
		return OnEKS
	case strings.HasPrefix(image, imagesOfEC2):
		return OnEC2
	}
	return OnAzure
}

// platformOn a disk.
func platformOn(root string) Platform {
	switch {
	case Exists(root, "usr/bin/nodeadm"):
		return OnEKS
	case Exists(root, "etc/cloud/cloud.cfg.d/90-ec2.cfg"):
		return OnEC2
	}
	return OnAzure
}

// on sets the platform of an existing disk.
func (f TemplateValues) on(root string) TemplateValues {
	f.Platform = platformOn(root)
	return f.Complete()
}

// platformNames are the names that a platform uses.
type platformNames struct{ user, kernel, release, kernelPackage, network, source, seed string }

var called = map[Platform]platformNames{
	OnAzure: {"azureuser", "azure", "5.15.0-1071-azure", "linux-image-azure", "azure", "DataSourceAzure", "DataSourceAzure [seed=/dev/sr0]"},
	OnEC2:   {"ubuntu", "aws", "5.15.0-1071-aws", "linux-image-aws", "cluster", "DataSourceEc2", "DataSourceEc2Local"},
	OnEKS:   {"ec2-user", "aws", "6.1.156-177.286.amzn2023.x86_64", "kernel", "aws", "DataSourceEc2", "DataSourceEc2Local"},
}

// User that cloud-init creates.
func (p Platform) User() string { return called[p].user }

// Kernel is the flavour in the names of the platform's kernels.
func (p Platform) Kernel() string { return called[p].kernel }

// Release of the image's kernel.
func (p Platform) Release() string { return called[p].release }

// KernelPackage is the package with the kernel.
func KernelPackage(root string) string { return called[platformOn(root)].kernelPackage }

// Network is the name of the nodes' network in the files of the network plugin.
func (p Platform) Network() string { return called[p].network }

// Source is cloud-init's data source, and Seed the location of its data.
func (p Platform) Source() string { return called[p].source }

// Seed is said of Source.
func (p Platform) Seed() string { return called[p].seed }
