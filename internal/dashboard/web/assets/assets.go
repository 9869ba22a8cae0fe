// Package assets has the dashboard's style sheet, which the HTML report shares, its script and its icon.
package assets

import "embed"

// Files are the assets by their names on the server.
//
//go:embed dashboard.css dashboard.js icon.svg
var Files embed.FS

// Sheet is the style sheet.
//
//go:embed dashboard.css
var Sheet string
