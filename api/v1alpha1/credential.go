package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AdminGroup is the group with all permissions, which no RBAC rule can remove.
const AdminGroup = "system:masters"

// Credential is a client certificate or a token in the image that nodes need to join. Every reader of the image can use
// the credential.
type Credential struct {
	// Path of the file.
	Path string `json:"path"`
	// CommonName is the user, and Groups are the groups, of the credential for the API server.
	// +optional
	CommonName string `json:"commonName,omitempty"`
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
	// NotAfter is the expiry time.
	NotAfter metav1.Time `json:"notAfter"`
}

// Admin reports whether the bearer has all permissions in the cluster; only a new certificate authority removes these
// permissions.
func (c *Credential) Admin() bool { return slices.Contains(c.Groups, AdminGroup) }

// String describes the credential in a few words.
func (c *Credential) String() string {
	is := fmt.Sprintf("%s is %s", c.Path, c.CommonName)
	if len(c.Groups) > 0 {
		is += " of " + strings.Join(c.Groups, ", ")
	}
	is += ", until " + c.NotAfter.UTC().Format("2006-01-02")
	if c.Admin() {
		is += ": any reader of the image is cluster-admin"
	}
	return is
}
