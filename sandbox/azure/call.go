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

// call is a request during its handling.
type call struct {
	r         *http.Request
	route     *route
	vars      map[string]string
	principal principal
	body      object
	// fault that strikes the request; nil for none.
	fault *fault.Fault
	// started is the long operation of the request.
	started *operation
}

// reply is the answer of a handler.
type reply struct {
	status int
	body   any
	header http.Header
	// operation that continues; its polling headers are sent with the reply.
	operation *operation
}

func ok(body any) *reply { return &reply{status: http.StatusOK, body: body} }

func (c *call) version() string { return c.r.URL.Query().Get("api-version") }

// compute is the ID of the Compute resource in the path.
func (c *call) compute(typesAndVars ...string) resourceID {
	id := resourceID{subscription: c.vars["subscription"], group: c.vars["group"], namespace: computeNamespace}
	for i := 0; i < len(typesAndVars); i += 2 {
		id = id.child(typesAndVars[i], c.vars[typesAndVars[i+1]])
	}
	return id
}

// readBody parses the JSON body; an empty body is an empty object.
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

// normalLocation makes "West US 2" and "westus2" equal.
func normalLocation(name string) string { return fold(strings.ReplaceAll(name, " ", "")) }

// writable is a body without properties that only the service writes.
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
