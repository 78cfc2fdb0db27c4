/**
 * `node scripts/build.js DIRECTORY` puts src/ into few files that Node starts fast: it takes 0.6 s to find and link a
 * thousand small modules. Types are checked by `npm test` and `npm run typecheck`.
 */
import { build } from 'esbuild'

/** What Node starts, and project-files.ts, which must stay directly in the directory. */
const PROGRAMS = [
  'main',
  'cli/mergelog',
  'verify/file-checks-process',
  'markup/render-thread',
  'ui/diff-thread',
  'openpgp/gpg-thread',
  'project-files',
]
/** What `bench/` loads to measure what users run. */
const MEASURED = ['config', 'garbage-collection', 'server']

/** Packages that are put into the build as well: they are many small modules. Others are loaded where they are. */
const INCLUDED = ['typebox', '@fastify/type-provider-typebox']

/** Leaves the other packages, and Node's own modules, as imports. */
const externalPackages = {
  name: 'external packages',
  setup({ onResolve }) {
    onResolve({ filter: /^[^./]/ }, ({ path, kind }) => {
      const isIncluded = INCLUDED.some((name) => path === name || path.startsWith(`${name}/`))
      return kind === 'entry-point' || isIncluded ? undefined : { path, external: true }
    })
  },
}

await build({
  entryPoints: [...PROGRAMS, ...MEASURED].map((name) => `src/${name}.ts`),
  outdir: process.argv[2],
  outbase: 'src',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  sourcemap: true,
  sourcesContent: false,
  plugins: [externalPackages],
})
