package karpenter

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// object is a part of an object as JSON.
type object = map[string]any

// Groups and kinds of Karpenter. Source: Karpenter v1.14, pkg/apis/v1.
const (
	awsGroup  = "karpenter.k8s.aws"
	coreGroup = "karpenter.sh"

	kindClass = "EC2NodeClass"
	kindPool  = "NodePool"
	kindClaim = "NodeClaim"

	fieldManager = "kamino"
	opRead       = "read"
)

var (
	classes = schema.GroupVersionResource{Group: awsGroup, Version: "v1", Resource: "ec2nodeclasses"}
	pools   = schema.GroupVersionResource{Group: coreGroup, Version: "v1", Resource: "nodepools"}
	claims  = schema.GroupVersionResource{Group: coreGroup, Version: "v1", Resource: "nodeclaims"}
)

// Labels. Karpenter puts those of the instance onto NodeClaims and Nodes.
const (
	labelPool         = coreGroup + "/nodepool"
	labelCapacityType = coreGroup + "/capacity-type"
	labelArch         = "kubernetes.io/arch"
	labelType         = "node.kubernetes.io/instance-type"
	labelZone         = "topology.kubernetes.io/zone"
)

// resourceOf returns the resource of an object.
func resourceOf(o *unstructured.Unstructured) schema.GroupVersionResource {
	switch o.GetKind() {
	case kindClass:
		return classes
	case kindPool:
		return pools
	}
	return claims
}

// nameOf names an object for people.
func nameOf(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }

// nodeClass is what the package reads of an EC2NodeClass.
type nodeClass struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		AMIFamily        string        `json:"amiFamily"`
		AMISelectorTerms []term        `json:"amiSelectorTerms"`
		Devices          []blockDevice `json:"blockDeviceMappings"`
		InstanceStore    string        `json:"instanceStorePolicy"`
	} `json:"spec"`
	Status struct {
		AMIs []struct {
			ID           string        `json:"id"`
			Requirements []requirement `json:"requirements"`
		} `json:"amis"`
		Subnets []struct {
			Zone string `json:"zone"`
		} `json:"subnets"`
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// term is one of amiSelectorTerms. Several fields of a term must all match.
type term struct {
	Alias        string            `json:"alias,omitempty"`
	ID           string            `json:"id,omitempty"`
	SSMParameter string            `json:"ssmParameter,omitempty"`
	Name         string            `json:"name,omitempty"`
	Owner        string            `json:"owner,omitempty"`
	Tags         map[string]string `json:"tags,omitempty"`
}

// blockDevice is a disk of the class's instances.
type blockDevice struct {
	DeviceName string `json:"deviceName"`
	RootVolume bool   `json:"rootVolume"`
	EBS        struct {
		VolumeSize *resource.Quantity `json:"volumeSize"`
		SnapshotID string             `json:"snapshotID"`
	} `json:"ebs"`
}

// requirement selects instances, as a node selector does.
type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

// nodePool is what the package reads of a NodePool.
type nodePool struct {
	raw      *unstructured.Unstructured
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Template struct {
			Metadata struct {
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
			Spec claimSpec `json:"spec"`
		} `json:"template"`
		Disruption struct {
			Budgets []budget `json:"budgets"`
		} `json:"disruption"`
	} `json:"spec"`
}

// claimSpec is the part of NodeClaims that NodePools have in their template.
type claimSpec struct {
	NodeClassRef struct {
		Group string `json:"group"`
		Kind  string `json:"kind"`
		Name  string `json:"name"`
	} `json:"nodeClassRef"`
	Requirements []requirement `json:"requirements"`
}

// isOf reports whether the instances are of a class.
func (s claimSpec) isOf(class string) bool {
	return s.NodeClassRef.Group == awsGroup && s.NodeClassRef.Kind == kindClass && s.NodeClassRef.Name == class
}

// nodeClaim is what the package reads of a NodeClaim.
type nodeClaim struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     claimSpec         `json:"spec"`
	Status   struct {
		ProviderID cloud.InstanceID   `json:"providerID"`
		ImageID    string             `json:"imageID"`
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// as decodes an object. Numbers and times are as in JSON.
func as[T any](o *unstructured.Unstructured) (out T, err error) {
	text, err := json.Marshal(o.Object)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		err = &cloud.Error{Kind: cloud.Unavailable, Op: opRead, Resource: nameOf(o), Err: err,
			Message: "the object has another form than in Karpenter's v1: " + err.Error()}
	}
	return out, err
}

// conditionOf returns a condition; the zero value if absent.
func conditionOf(all []metav1.Condition, name string) metav1.Condition {
	at := slices.IndexFunc(all, func(c metav1.Condition) bool { return c.Type == name })
	if at < 0 {
		return metav1.Condition{}
	}
	return all[at]
}

// instance describes the instance of a NodeClaim, without the image. The zone is the one of the provider ID: aws:///ZONE/ID.
func (c nodeClaim) instance(pool cloud.PoolID) cloud.Instance {
	return cloud.Instance{
		ID: c.Status.ProviderID, Pool: pool, Type: c.Metadata.Labels[labelType], Zone: c.Metadata.Labels[labelZone],
		Recipe: c.configuration(), CreatedAt: c.Metadata.CreationTimestamp.Time, Removing: c.Metadata.DeletionTimestamp != nil,
	}
}

// configuration identifies what a NodeClaim was built from besides the image: Karpenter's hashes have no AMI. Empty if unknown.
func (c nodeClaim) configuration() string {
	class, pool := c.Metadata.Annotations[awsGroup+"/ec2nodeclass-hash"], c.Metadata.Annotations[coreGroup+"/nodepool-hash"]
	if class == "" || pool == "" {
		return ""
	}
	return digest(class + "/" + pool + "/" + c.Metadata.Labels[labelPool])
}

// poolPrefix is the beginning of pool IDs: karpenter.k8s.aws/ec2nodeclasses/NAME.
const poolPrefix = awsGroup + "/ec2nodeclasses/"

// IsPool reports whether the ID is of a pool of this package.
func IsPool(id cloud.PoolID) bool { return strings.HasPrefix(string(id), poolPrefix) }

func poolOf(class string) cloud.PoolID { return cloud.PoolID(poolPrefix + class) }

// parsePool returns the name of the class.
func parsePool(id cloud.PoolID) (string, error) {
	name, is := strings.CutPrefix(string(id), poolPrefix)
	if !is || name == "" || strings.Contains(name, "/") {
		return "", &cloud.Error{Kind: cloud.Unsupported, Op: opRead, Resource: string(id),
			Message: "not a pool of Karpenter (" + poolPrefix + "NAME): copy the ID from `kamino status -o wide`"}
	}
	return name, nil
}

// shorten limits a name. A digest replaces the end, so that names stay unique.
func shorten(name string, most int) string {
	if len(name) <= most {
		return name
	}
	return strings.TrimRight(name[:most-9], ".-") + "-" + digest(name)
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:4])
}
