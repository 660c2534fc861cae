-- SPDX-License-Identifier: BSD-3-Clause
-- For pandoc, from Markdown to a man page: headings in capitals, a link to
-- another page as its name in bold, a link to a file of this tree as its text.

function Header(header)
  return header:walk({
    Str = function(str) return pandoc.Str(pandoc.text.upper(str.text)) end
  })
end

function Link(link)
  if link.target:match("%.%d%.md") then
    return pandoc.Strong(link.content)
  elseif not link.target:match("^%a+:") then
    return link.content
  end
end

-- Code is indented by 2 columns, not 7, so that lines of 71 columns fit.
function CodeBlock(block)
  local escapes = { ["\\"] = "\\e", ["-"] = "\\-", ["'"] = "\\[aq]",
    ["`"] = "\\[ga]", ["^"] = "\\[ha]", ["~"] = "\\[ti]" }
  local text = block.text:gsub("[\\%-'`^~]", escapes)
  text = ("\n" .. text):gsub("\n%.", "\n\\&.")
  return pandoc.RawBlock("man",
    ".PP\n.RS 2\n.nf\n\\f[C]" .. text .. "\n\\f[R]\n.fi\n.RE")
end
