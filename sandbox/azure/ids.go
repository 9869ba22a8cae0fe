package azure

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// resourceID is the path of a resource in ARM, in its first spelling.
type resourceID struct {
	subscription string
	group        string
	namespace    string
	types        []string
	names        []string
}

// parseID reads "/subscriptions/S/resourceGroups/G/providers/NS/type/name[/type/name...]".
func parseID(s string) (resourceID, bool) {
	p := strings.Split(strings.Trim(s, "/"), "/")
	if len(p) < 8 || len(p)%2 != 0 || !strings.EqualFold(p[0], "subscriptions") ||
		!strings.EqualFold(p[2], "resourceGroups") || !strings.EqualFold(p[4], "providers") {
		return resourceID{}, false
	}
	id := resourceID{subscription: p[1], group: p[3], namespace: p[5]}
	for i := 6; i < len(p); i += 2 {
		if p[i] == "" || p[i+1] == "" {
			return resourceID{}, false
		}
		id.types, id.names = append(id.types, p[i]), append(id.names, p[i+1])
	}
	return id, true
}

func (id resourceID) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "/subscriptions/%s/resourceGroups/%s/providers/%s", id.subscription, id.group, id.namespace)
	for i := range id.types {
		fmt.Fprintf(&b, "/%s/%s", id.types[i], id.names[i])
	}
	return b.String()
}

// key is the key in tables.
func (id resourceID) key() string { return fold(id.String()) }

// resourceType is "Microsoft.Compute/galleries/images".
func (id resourceID) resourceType() string {
	return id.namespace + "/" + strings.Join(id.types, "/")
}

func (id resourceID) typeAndNames() string {
	return id.resourceType() + "/" + strings.Join(id.names, "/")
}

func (id resourceID) name() string { return id.names[len(id.names)-1] }

// parent is the enclosing resource.
func (id resourceID) parent() resourceID {
	up := id
	up.types, up.names = id.types[:len(id.types)-1], id.names[:len(id.names)-1]
	return up
}

func (id resourceID) child(kind, name string) resourceID {
	down := id
	down.types = append(append([]string(nil), id.types...), kind)
	down.names = append(append([]string(nil), id.names...), name)
	return down
}

// is reports whether the ID has a Compute type, such as "galleries/images/versions".
func (id resourceID) is(kind string) bool {
	return strings.EqualFold(id.namespace, computeNamespace) && strings.EqualFold(strings.Join(id.types, "/"), kind)
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails; an error would end the program
	return formatUUID(b[:])
}

// uuidOf derives a stable UUID from a text.
func uuidOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return formatUUID(sum[:16])
}

func formatUUID(b []byte) string {
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
