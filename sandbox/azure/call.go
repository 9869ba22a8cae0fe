package azure

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// maxBody is more than ARM takes (4 MB).
const maxBody = 8 << 20

// call is one request on its way through.
type call struct {
	r         *http.Request
	route     *route
	vars      map[string]string
	principal principal
	body      object
	// fault that was ordered for it; nil if none.
	fault *fault.Fault
	// started is the long operation that it began.
	started *operation
}

// reply is what a handler answers.
type reply struct {
	status int
	body   any
	header http.Header
	// operation that goes on; its polling headers are sent with the reply.
	operation *operation
}

func ok(body any) *reply { return &reply{status: http.StatusOK, body: body} }

func (c *call) version() string { return c.r.URL.Query().Get("api-version") }

// compute is the ID of the Compute resource that the path names.
func (c *call) compute(typesAndVars ...string) resourceID {
	id := resourceID{subscription: c.vars["subscription"], group: c.vars["group"], namespace: computeNamespace}
	for i := 0; i < len(typesAndVars); i += 2 {
		id = id.child(typesAndVars[i], c.vars[typesAndVars[i+1]])
	}
	return id
}

// readBody parses the JSON body; an empty one is an empty object.
func (c *call) readBody() *problem {
	c.body = object{}
	if c.r.Body == nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(c.r.Body, maxBody))
	if err != nil {
		return badRequest("InvalidRequestContent", "The request content could not be read: %v.", err)
	}
	if len(strings.TrimSpace(string(data))) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, &c.body); err != nil {
		return badRequest("InvalidRequestContent", "The request content was invalid and could not be deserialized: '%v'.", err)
	}
	return nil
}

// normalLocation makes "West US 2" and "westus2" one.
func normalLocation(name string) string { return fold(strings.ReplaceAll(name, " ", "")) }

// writable is a body without what only the service writes.
func writable(body object) object {
	out := copyObject(body)
	for _, k := range []string{"id", "name", "type", "etag", "systemData", "managedBy", "instanceId", "resources"} {
		delete(out, k)
	}
	properties, isObject := out["properties"].(object)
	if !isObject {
		properties = object{}
		out["properties"] = properties
	}
	for _, k := range []string{"provisioningState", "timeCreated", "uniqueId", "vmId", "instanceView", "replicationStatus"} {
		delete(properties, k)
	}
	return out
}
