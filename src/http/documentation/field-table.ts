/** What the fields of bodies and answers mean where their schemas do not say it: by name, or by component and name. */
export const FIELDS: Readonly<Record<string, string>> = {}
