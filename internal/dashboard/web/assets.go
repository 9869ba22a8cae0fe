package web

import "embed"

// files are the assets by their names on the server.
//
//go:embed assets
var files embed.FS

// Sheet is the style sheet of the dashboard, which the HTML report shares.
//
//go:embed assets/dashboard.css
var Sheet string
