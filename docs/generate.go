// Package docs has the pages. Package hack/docs generates some of them, and holds all to what the code says.
package docs

//go:generate go test ../hack/docs -vet=off -run TestGeneratedPages -update
