package cli

import "github.com/spf13/cobra"

func (r *root) demo() *cobra.Command { return &cobra.Command{Use: "demo", Hidden: true} }
