package azure

import (
	"crypto/hmac"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// consoles are the boot diagnostics of instances and VMs, in managed storage. The blobs need no token: their addresses
// have a signature and an end.
type consoles struct {
	*backend
	signer *signer
}

const retrieveAction = "/retrieveBootDiagnosticsData"

func (s consoles) routes() []*route {
	const permission = "/retrieveBootDiagnosticsData/action"
	return []*route{
		{method: http.MethodPost, pattern: instancePath + retrieveAction, noun: "instance", operation: "console",
			action: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines" + permission, handle: func(c *call) (*reply, error) {
				return s.retrieve(c, c.instanceID(), entityNotFound())
			}},
		{method: http.MethodPost, pattern: vmPath + retrieveAction, noun: "vm", operation: "console",
			action: "Microsoft.Compute/virtualMachines" + permission, handle: func(c *call) (*reply, error) {
				return s.retrieve(c, c.vmID(), notFound(c.vmID()))
			}},
	}
}

// hasConsole: the profile enables boot diagnostics, with the storage account of a user if account is set.
func hasConsole(profile object) (enabled bool, account string) {
	diagnostics := child(child(profile, "diagnosticsProfile"), "bootDiagnostics")
	enabled, _ = diagnostics["enabled"].(bool)
	return enabled, text(diagnostics, "storageUri")
}

// lifetime of an address in minutes. Source: REST reference of "Retrieve Boot Diagnostics Data".
const (
	lifetimeParameter                = "sasUriExpirationTimeInMinutes"
	defaultLifetime, longestLifetime = 120, 1440
)

// retrieve returns the addresses of screenshot and log. The code for disabled diagnostics was not verified on Azure.
func (s consoles) retrieve(c *call, id resourceID, missing *problem) (*reply, error) {
	minutes := defaultLifetime
	if wanted := c.r.URL.Query().Get(lifetimeParameter); wanted != "" {
		var err error
		if minutes, err = strconv.Atoi(wanted); err != nil || minutes < 1 || minutes > longestLifetime {
			return nil, invalid(lifetimeParameter, "The value of parameter %s is invalid: it must be between 1 and %d.", lifetimeParameter, longestLifetime)
		}
	}
	var found instanceCopy
	known := false
	s.store.Read(func(st *state) {
		if i := st.Instances[id.key()]; i != nil {
			found, known = oneOf(i, st.setOf(i)), true
		}
	})
	if !known {
		return nil, missing
	}
	if enabled, account := hasConsole(found.profile); !enabled || account != "" {
		return nil, conflict("OperationNotAllowed", "Boot diagnostics with managed storage is not enabled on VM '%s'.", id.name())
	}
	end := time.Now().Add(time.Duration(minutes) * time.Minute).UTC()
	address := func(blob string) string { return "https://" + c.r.Host + s.address(found.instance.ID, blob, end) }
	return ok(object{"consoleScreenshotBlobUri": address("screenshot.bmp"), "serialConsoleLogBlobUri": address("serialconsole.log")}), nil
}

const blobPrefix = "/bootdiagnostics/"

// address of a blob, with its end and its signature.
func (s consoles) address(instance, blob string, end time.Time) string {
	path := blobPrefix + hex.EncodeToString([]byte(fold(instance))) + "/" + blob
	se := end.Format(time.RFC3339)
	return path + "?" + url.Values{"sv": {"2024-11-04"}, "sr": {"b"}, "sp": {"r"}, "se": {se}, "sig": {s.signature(path, se)}}.Encode()
}

func (s consoles) signature(path, end string) string {
	return b64.EncodeToString(s.signer.mac(path + "\n" + end))
}

// serve answers a request for a blob, and reports whether the request was for a blob.
func (s consoles) serve(w http.ResponseWriter, r *http.Request, entry *requestlog.Request) bool {
	rest, is := strings.CutPrefix(r.URL.Path, blobPrefix)
	if !is {
		return false
	}
	entry.Class, entry.Noun, entry.Operation = requestlog.Read, "blob", fold(r.Method)
	coded, blob, _ := strings.Cut(rest, "/")
	id, err := hex.DecodeString(coded)
	end, late := time.Parse(time.RFC3339, r.URL.Query().Get("se"))
	wanted := s.signature(r.URL.Path, r.URL.Query().Get("se"))
	w.Header().Set("Content-Type", "application/xml")
	switch {
	case !hmac.Equal([]byte(wanted), []byte(r.URL.Query().Get("sig"))) || late != nil || time.Now().After(end):
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w,
			"<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>AuthenticationFailed</Code><Message>Server failed to authenticate the "+
				"request.</Message></Error>")
	case err != nil || blob != "serialconsole.log":
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w,
			"<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>BlobNotFound</Code><Message>The specified blob does not exist.</Message></Error>")
	default:
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("x-ms-blob-type", "AppendBlob")
		_, _ = fmt.Fprint(w, s.config.Fleet.Console(string(id)))
	}
	return true
}

// bootDiagnostics of the instance view. Managed storage has no addresses there.
func bootDiagnostics(i *instance, profile object) object {
	enabled, account := hasConsole(profile)
	if !enabled {
		return nil
	}
	if account == "" {
		return object{}
	}
	blob := strings.TrimSuffix(account, "/") + "/bootdiagnostics-" + i.VMID + "/"
	return object{"consoleScreenshotBlobUri": blob + "screenshot.bmp", "serialConsoleLogBlobUri": blob + "serialconsole.log"}
}
