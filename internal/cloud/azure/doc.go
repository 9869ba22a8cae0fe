// Package azure is the provider for Azure. Package azure maps the cloud interfaces to requests of the Azure SDK, and
// Azure's answers to values and errors of package cloud.
//
// Each noun of the cloud has a file: instance, pool, recipe (promote writes a recipe), snapshot, gallery, image (publish
// makes an image). config.go, cloudconfig.go and credential.go find cloud and credential. ids.go holds names, errors.go
// the meaning of errors, permission.go the required actions. preflight.go finds obstacles before a capture.
//
// The provider makes no decisions about captures. A call starts a long operation and never waits for the end; the next
// call reads the resource's own state. The process remembers only facts that rarely change, such as existing galleries
// and regions without zone-redundant storage.
//
// "unverified" marks a fact that was not checked on real Azure.
package azure
